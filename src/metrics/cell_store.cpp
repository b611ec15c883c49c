#include "metrics/cell_store.hpp"

#include <cassert>

namespace warmroute::metrics {

CellStore::~CellStore() {
  for (auto& slot : shards_) {
    Shard* shard = slot.load();
    if (shard == nullptr) continue;
    for (auto& chunk : shard->chunks) delete chunk.load();
    delete shard;
  }
}

CellStore::Range CellStore::acquire(std::uint32_t count) {
  assert(count <= range_limit);
  const std::lock_guard lock(mutex_);
  if (auto it = free_.find(count); it != free_.end() && !it->second.empty()) {
    const Range range{it->second.back(), count};
    it->second.pop_back();
    return range;
  }
  if (next_ % chunk_cells + count > chunk_cells) next_ += chunk_cells - next_ % chunk_cells;
  if (next_ + count > chunk_cells * chunk_limit) return {0, count};
  const Range range{next_, count};
  next_ += count;
  return range;
}

void CellStore::release(Range range) noexcept {
  if (range.first == 0) return;
  const std::lock_guard lock(mutex_);
  for (auto& slot : shards_) {
    Shard* shard = slot.load(std::memory_order_acquire);
    if (shard == nullptr) continue;
    Chunk* chunk = shard->chunks[range.first / chunk_cells].load(std::memory_order_acquire);
    if (chunk == nullptr) continue;
    for (std::uint32_t i = 0; i < range.count; ++i) chunk->cells[range.first % chunk_cells + i].store(0);
  }
  free_[range.count].push_back(range.first);
}

double CellStore::sum(std::uint32_t index) const noexcept {
  double total = 0;
  for (const auto& slot : shards_) {
    const Shard* shard = slot.load(std::memory_order_acquire);
    if (shard == nullptr) continue;
    if (const Chunk* chunk = shard->chunks[index / chunk_cells].load(std::memory_order_acquire))
      total += chunk->cells[index % chunk_cells].load(std::memory_order_acquire);
  }
  return total;
}

std::atomic<double>& CellStore::make_cell(std::uint32_t slot, std::uint32_t index) {
  const std::lock_guard lock(mutex_);
  Shard* shard = shards_[slot].load(std::memory_order_relaxed);
  if (shard == nullptr) {
    shard = new Shard;
    shards_[slot].store(shard, std::memory_order_release);
  }
  auto& place = shard->chunks[index / chunk_cells];
  Chunk* chunk = place.load(std::memory_order_relaxed);
  if (chunk == nullptr) {
    chunk = new Chunk;
    place.store(chunk, std::memory_order_release);
  }
  return chunk->cells[index % chunk_cells];
}

}  // namespace warmroute::metrics
