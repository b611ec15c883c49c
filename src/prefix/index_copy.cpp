// Whole lists out of the index and back into it, for snapshots.
#include <new>

#include "prefix/index_pod.hpp"

namespace warmroute::prefix {

void Index::copy(PodId pod, std::vector<StoredBlock>& out) const {
  out.clear();
  const PodNumber number = number_of(pod);
  if (number == no_number) return;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner != pod) return;
  out.reserve(entry.list.size());
  for (Place at = entry.list.head(); at != PodList::none; at = entry.list.next(at))
    out.push_back({entry.list.hash(at), entry.list.model(at)});
}

std::size_t Index::restore(PodId pod, std::span<const StoredBlock> blocks) noexcept {
  const PodNumber number = number_of(pod);
  if (number == no_number) return 0;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner != pod) return 0;
  entry.early.clear();  // what is under way may stand on what is restored: it stays
  PodList& list = entry.list;
  std::size_t restored = 0;
  try {
    for (const auto& [hash, model] : blocks) {
      if (list.size() >= entry.capacity) break;
      if (table_.find(hash, number)) continue;  // recorded meanwhile, so more recently used
      const Place place = list.allocate();
      try {
        table_.insert(hash, number, place);
      } catch (const std::bad_alloc&) {
        list.give_back(place);
        throw;
      }
      list.insert(place, list.tail(), hash, model);
      ++restored;
    }
  } catch (const std::bad_alloc&) {
    // What was restored so far is whole: heads come before tails.
  }
  entries_.fetch_add(static_cast<std::int64_t>(restored), std::memory_order_relaxed);
  return restored;
}

}  // namespace warmroute::prefix
