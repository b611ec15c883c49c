#pragma once
// Carries the index over a restart: reads the snapshot at start, gives each pod its part when the same incarnation
// shows up, and writes a new one from time to time.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "prefix/snapshot.hpp"
#include "prefix_cache/model_names.hpp"
#include "prefix_cache/settings.hpp"

namespace warmroute::plugins {

class SnapshotKeeper {
 public:
  /// Reads the file; one that is damaged or made under other settings is ignored, with a log line.
  SnapshotKeeper(const PrefixCacheSettings& settings, Host& host);

  /// Of the snapshot that was read; hashes are only good with it.
  [[nodiscard]] std::optional<std::uint64_t> seed() const noexcept { return seed_; }
  /// Seconds since the file that is on disk was written; 0: there is none.
  [[nodiscard]] double age_seconds() const;

  // Control thread.
  /// Restores what the snapshot has of the incarnation. \return entries
  std::size_t pod_known(PodId pod, const std::string& incarnation, prefix::Index& index, ModelNames& models);
  void pod_left(PodId pod);

  // One thread at a time, any.
  /// Gives up what was read and not asked for: its pods are gone. An error is logged once until it is over.
  void write(const prefix::Index& index, const ModelNames& models, std::uint64_t seed);

 private:
  void read();
  [[nodiscard]] prefix::Snapshot collect(const prefix::Index& index, const ModelNames& models,
                                         std::uint64_t seed) const;

  const PrefixCacheSettings settings_;
  Host& host_;
  std::optional<std::uint64_t> seed_;
  mutable std::mutex mutex_;
  std::map<PodId, std::string> pods_;
  std::vector<std::string> read_models_;
  std::map<std::string, std::vector<prefix::StoredBlock>> waiting_;  ///< by incarnation
  std::atomic<std::int64_t> written_at_{0};
  bool failing_ = false;
};

}  // namespace warmroute::plugins
