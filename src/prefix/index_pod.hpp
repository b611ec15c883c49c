#pragma once
// One pod inside the index, for the files that implement Index. Guarded by its own mutex.

#include <memory>
#include <mutex>
#include <vector>

#include "prefix/index.hpp"

namespace warmroute::prefix {

/// A chain that was recorded before its answer was complete. Its blocks from `own` on are in the list for the sake of
/// such chains alone; those before were recorded for good by somebody.
struct EarlyChain {
  CreditId id = no_credit;
  std::size_t own = 0;
  std::vector<std::uint64_t> blocks;
};

struct alignas(64) Index::Pod {
  std::mutex mutex;
  PodId owner;  ///< whose blocks these are; none after forget()
  PodNumber number = 0;
  std::size_t capacity = 0;
  PodList list;
  CreditId last_credit = no_credit;
  std::vector<EarlyChain> early;

  /// Takes one entry out of table and list.
  void remove(BlockTable& table, Place at) noexcept {
    table.erase(list.hash(at), number);
    list.remove(at);
  }
};

struct Index::Dead {
  PodNumber number = 0;
  PodList list;
};

/// Adds to what was dropped of a model.
inline void add_evicted(Evictions& evicted, ModelNumber model, std::size_t entries) {
  for (auto& known : evicted) {
    if (known.model != model) continue;
    known.entries += entries;
    return;
  }
  evicted.push_back({model, entries});
}

}  // namespace warmroute::prefix
