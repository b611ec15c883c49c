#pragma once
// block hash -> the pods that hold the block. One table for all pods, cut into shards with a mutex each, so that a
// probe costs the same for one pod and for a thousand and no lock is shared by all.
//
// A bucket is one cache line of five cells. A cell is 12 bytes: 56 bits of the hash (the shard number holds the rest),
// 16 bits of pod number, 24 bits of the entry's place in that pod's list. A block of up to three pods has a cell for
// each, one of more pods a single cell that names a PodSet. A full bucket spills into the next and counts what it
// spilled, so a probe reads one line, seldom two, and removal leaves no tombstones.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "prefix/pod_set.hpp"

namespace warmroute::prefix {

class BlockTable {
 public:
  static constexpr PodNumber max_pods = 0xFFFE;  ///< pod numbers are below this
  static constexpr Place max_places = 0xFFFFFF;  ///< places are below this

  BlockTable();
  ~BlockTable();
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  /// \pre the pair is not in the table. \throws std::bad_alloc, and then nothing changed
  void insert(std::uint64_t hash, PodNumber pod, Place place);
  /// Nothing when the pair is not in the table.
  void erase(std::uint64_t hash, PodNumber pod) noexcept;
  [[nodiscard]] std::optional<Place> find(std::uint64_t hash, PodNumber pod) const;
  /// Sets in `found` (cleared before) the bit of each candidate that holds the block. \return how many do
  std::size_t probe(std::uint64_t hash, std::span<const std::uint64_t> candidates,
                    std::span<std::uint64_t> found) const;
  /// Starts to load what the next call for this hash reads.
  void prefetch(std::uint64_t hash) const noexcept;
  /// Memory of all structures, without the allocator's own share. Takes every lock in turn.
  [[nodiscard]] std::size_t bytes() const;

 private:
  static constexpr unsigned shard_bits = 9;
  struct Cell;
  struct Bucket;
  struct Shard;

  [[nodiscard]] Shard& shard_of(std::uint64_t hash) const noexcept;
  std::unique_ptr<Shard[]> shards_;
};

}  // namespace warmroute::prefix
