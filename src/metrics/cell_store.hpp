#pragma once
// The numbers behind all series. A series is a range of cell numbers; each thread slot has its own copy of every
// cell, in chunks that appear on first use, and a value is the sum over the slots.

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "metrics/thread_slot.hpp"

namespace warmroute::metrics {

class CellStore {
 public:
  static constexpr std::uint32_t chunk_cells = 1024;
  static constexpr std::uint32_t chunk_limit = 4096;
  /// Largest range: a histogram's buckets and its sum.
  static constexpr std::uint32_t range_limit = 128;
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };

  CellStore() = default;
  ~CellStore();
  CellStore(const CellStore&) = delete;
  CellStore& operator=(const CellStore&) = delete;

  /// All zero. Never crosses a chunk. A range of scrap cells (first == 0) when four million cells are in use.
  [[nodiscard]] Range acquire(std::uint32_t count);
  /// Nobody may use the range any more, nor be using it.
  void release(Range range) noexcept;

  /// Any thread, no lock. Release order, so that who reads a gauge's zero also sees that its guards are gone.
  void add(std::uint32_t index, double amount) noexcept {
    const auto slot = thread_slot();
    auto& value = cell(slot, index);
    if (slot != shared_slot) {
      value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_release);
      return;
    }
    double old = value.load(std::memory_order_relaxed);
    while (!value.compare_exchange_weak(old, old + amount, std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
  }
  [[nodiscard]] double sum(std::uint32_t index) const noexcept;

 private:
  struct alignas(64) Chunk {
    std::array<std::atomic<double>, chunk_cells> cells{};
  };
  struct Shard {
    std::array<std::atomic<Chunk*>, chunk_limit> chunks{};
  };

  std::atomic<double>& cell(std::uint32_t slot, std::uint32_t index) noexcept {
    if (Shard* shard = shards_[slot].load(std::memory_order_acquire)) {
      if (Chunk* chunk = shard->chunks[index / chunk_cells].load(std::memory_order_acquire))
        return chunk->cells[index % chunk_cells];
    }
    return make_cell(slot, index);
  }
  std::atomic<double>& make_cell(std::uint32_t slot, std::uint32_t index);

  std::array<std::atomic<Shard*>, slot_count> shards_{};
  std::mutex mutex_;                                          ///< all below, and the making of shards and chunks
  std::uint32_t next_ = range_limit;                          ///< the first cells are scrap
  std::map<std::uint32_t, std::vector<std::uint32_t>> free_;  ///< by size
};

}  // namespace warmroute::metrics
