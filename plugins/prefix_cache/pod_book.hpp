#pragma once
// What is known of each pod's engine beside its blocks: how many tokens its KV cache holds, and whether its reports
// bear out what the index believes. Used with maxHashCacheSize auto and learnFromUsage only. Any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <vector>

#include "warmroute/pod_view.hpp"

namespace warmroute::plugins {

class PodBook {
 public:
  /// How many blocks a pod may be believed to hold at most, given its engine and the text it serves.
  struct Sizing {
    std::size_t block_bytes = 64;
    double bytes_per_token = 0;  ///< of the model that was just served; 0: unknown
  };
  /// What is left to drop of a pod that lost what it was believed to have.
  struct Doubt {
    std::uint64_t until = 0;  ///< a block; all that is older goes too
    std::size_t left = 0;     ///< entries at most
  };
  /// Consecutive reports without a hit after which a pod is not believed any more.
  static constexpr unsigned strikes_until_doubt = 3;
  /// While a pod is not believed, one of so many answers is recorded, so that it can win its credit back.
  static constexpr unsigned trial_every = 32;

  void join(PodId pod);
  void leave(PodId pod);
  void set_kv_tokens(PodId pod, std::int64_t tokens);

  /// A new capacity, or nothing when it is unknown or about what it was.
  [[nodiscard]] std::optional<std::size_t> capacity(PodId pod, const Sizing& sizing);

  /// The engine reported `cached_tokens` where `believed` says that a hit was expected. \return whether the first block
  /// of the prompt is to be dropped with all that is older
  bool report(PodId pod, std::int64_t cached_tokens, bool believed);
  /// Whether an answer of the pod is worth recording.
  [[nodiscard]] bool trusted(PodId pod);
  void set_doubt(PodId pod, Doubt doubt);
  [[nodiscard]] Doubt doubt(PodId pod) const;

 private:
  struct Entry {
    PodId pod;
    std::mutex mutex;
    std::int64_t kv_tokens = 0;
    double bytes_per_token = 0;  ///< smoothed over the models that the pod serves
    std::size_t capacity = 0;    ///< last told
    unsigned strikes = 0, untrusted = 0;
    Doubt doubt;
  };
  [[nodiscard]] Entry* find(PodId pod) const noexcept;

  mutable std::shared_mutex mutex_;  ///< the list; entries have their own
  std::vector<std::unique_ptr<Entry>> by_slot_;
};

}  // namespace warmroute::plugins
