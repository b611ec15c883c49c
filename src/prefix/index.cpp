#include "prefix/index.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <utility>

#include "base/rng.hpp"

namespace warmroute::prefix {
namespace {

constexpr std::size_t prefetch_ahead = 6;  ///< blocks; enough to cover a memory access, few enough to stay cached

void add_evicted(Evictions& evicted, ModelNumber model, std::size_t entries) {
  for (auto& known : evicted) {
    if (known.model != model) continue;
    known.entries += entries;
    return;
  }
  evicted.push_back({model, entries});
}

}  // namespace

struct alignas(64) Index::Pod {
  std::mutex mutex;
  PodId owner;  ///< whose blocks these are; none after forget()
  PodNumber number = 0;
  PodList list;
};

struct Index::Dead {
  PodNumber number = 0;
  PodList list;
};

/// What one lookup has asked the table so far: how many candidates hold block `position` (counted from 1), and which.
struct Index::Probes {
  struct Probe {
    std::uint32_t position = 0;
    std::size_t count = 0;
  };
  std::size_t words = 0;
  std::vector<Probe> done;
  std::vector<std::uint64_t> sets;      ///< `words` for each probe
  std::vector<std::uint64_t> reported;  ///< candidates whose match is known
  std::vector<PodNumber> equals;        ///< candidates with the same match

  void start(std::size_t words_per_set) {
    words = words_per_set;
    done.clear();
    reported.assign(words, 0);
  }
  std::span<std::uint64_t> add(std::uint32_t position) {
    done.push_back({position, 0});
    if (sets.size() < done.size() * words) sets.resize(done.size() * words);
    return {sets.data() + (done.size() - 1) * words, words};
  }
  [[nodiscard]] std::span<const std::uint64_t> set_at(std::uint32_t position) const {
    std::size_t i = 0;
    while (done[i].position != position) ++i;
    return {sets.data() + i * words, words};
  }
};

Index::Index(std::size_t capacity) : capacity_(capacity) { assert(capacity >= 1 && capacity <= max_capacity); }

Index::~Index() {
  for (auto& segment : slots_) delete segment.load(std::memory_order_relaxed);
  for (auto& segment : pods_) delete[] segment.load(std::memory_order_relaxed);
}

Index::Pod& Index::pod_at(PodNumber number) const noexcept {
  return pods_[number / segment_size].load(std::memory_order_acquire)[number % segment_size];
}

PodNumber Index::take_number() {
  if (!unused_numbers_.empty()) {
    const PodNumber number = unused_numbers_.back();
    unused_numbers_.pop_back();
    return number;
  }
  const std::uint32_t next = numbers_.load(std::memory_order_relaxed);
  if (next >= BlockTable::max_pods) return no_number;
  unused_numbers_.reserve(next + 1);  // so that sweep() can give every number back
  auto& segment = pods_[next / segment_size];
  if (segment.load(std::memory_order_relaxed) == nullptr)
    segment.store(new Pod[segment_size], std::memory_order_release);
  numbers_.store(next + 1, std::memory_order_release);
  return static_cast<PodNumber>(next);
}

void Index::add(PodId pod) {
  if (pod.generation == 0 || pod.slot >= segment_size * segment_count) return;
  auto& segment = slots_[pod.slot / segment_size];
  if (SlotSegment* known = segment.load(std::memory_order_acquire); known != nullptr) {
    const std::uint64_t value = (*known)[pod.slot % segment_size].load(std::memory_order_acquire);
    const auto generation = static_cast<std::uint32_t>(value >> 32U);
    if (generation == pod.generation) return;
    if (generation != 0) forget({pod.slot, generation});
  }
  const std::lock_guard lock(control_);
  if (segment.load(std::memory_order_relaxed) == nullptr) segment.store(new SlotSegment{}, std::memory_order_release);
  const PodNumber number = take_number();
  if (number == no_number) return;
  Pod& entry = pod_at(number);
  {
    const std::lock_guard pod_lock(entry.mutex);
    entry.owner = pod;
    entry.number = number;
  }
  const std::uint64_t value = (std::uint64_t{pod.generation} << 32U) | number;
  (*segment.load(std::memory_order_relaxed))[pod.slot % segment_size].store(value, std::memory_order_release);
}

void Index::forget(PodId pod) {
  const PodNumber number = number_of(pod);
  if (number == no_number) return;
  auto dead = std::make_unique<Dead>();
  const std::lock_guard lock(control_);
  graveyard_.reserve(graveyard_.size() + 1);
  Pod& entry = pod_at(number);
  {
    const std::lock_guard pod_lock(entry.mutex);
    if (entry.owner != pod) return;
    entry.owner = {};
    dead->number = number;
    dead->list.swap(entry.list);
  }
  (*slots_[pod.slot / segment_size].load(std::memory_order_relaxed))[pod.slot % segment_size].store(
      0, std::memory_order_release);
  entries_.fetch_sub(static_cast<std::int64_t>(dead->list.size()), std::memory_order_relaxed);
  graveyard_.push_back(std::move(dead));
  dead_.fetch_add(1, std::memory_order_relaxed);
}

bool Index::sweep(std::size_t entries) noexcept {
  const std::unique_lock sweeping(sweeping_, std::try_to_lock);
  if (!sweeping) return needs_sweep();
  while (needs_sweep()) {
    Dead* dead = nullptr;
    {
      const std::lock_guard lock(control_);
      dead = graveyard_.front().get();
    }
    for (; entries > 0 && dead->list.size() > 0; --entries) {
      const Place first = dead->list.head();
      if (const Place second = dead->list.next(first); second != PodList::none)
        table_.prefetch(dead->list.hash(second));
      table_.erase(dead->list.hash(first), dead->number);
      dead->list.remove(first);
    }
    if (dead->list.size() > 0) return true;
    std::unique_ptr<Dead> gone;
    const std::lock_guard lock(control_);
    gone = std::move(graveyard_.front());
    graveyard_.erase(graveyard_.begin());
    unused_numbers_.push_back(gone->number);
    dead_.fetch_sub(1, std::memory_order_relaxed);
  }
  return false;
}

void Index::start(Candidates& out) const {
  const std::size_t numbers = numbers_.load(std::memory_order_acquire);
  out.words_.assign((numbers + 63) / 64, 0);
  // For every bit: a pod that joins in between may get a number up to the last of them.
  if (out.positions_.size() < out.words_.size() * 64) out.positions_.resize(out.words_.size() * 64);
  out.count_ = 0;
}

/// The last position that more than `found` candidates hold, 0 for none. What earlier levels asked is not asked again.
std::uint32_t Index::level(std::span<const std::uint64_t> blocks, const Candidates& candidates, std::size_t found,
                           Probes& probes) const {
  const auto size = static_cast<std::uint32_t>(blocks.size());
  std::uint32_t low = 0, high = size + 1;  // low: more than found (or unknown, 0); high: not more
  for (const auto& [position, count] : probes.done)
    if (count > found) low = std::max(low, position);
  // Beyond low only: answers of different moments may disagree, and then the longer match is believed.
  for (const auto& [position, count] : probes.done)
    if (count <= found && position > low) high = std::min(high, position);
  while (high - low > 1) {
    // The first block tells a miss, the last a full match: the two most frequent answers. Then halves.
    std::uint32_t position = low + (high - low) / 2;
    if (low == 0) {
      position = 1;
    } else if (high == size + 1) {
      position = size;
    } else {
      table_.prefetch(blocks[low + (position - low) / 2 - 1]);
      table_.prefetch(blocks[position + (high - position) / 2 - 1]);
    }
    const auto set = probes.add(position);
    const std::size_t count = table_.probe(blocks[position - 1], candidates.words_, set);
    probes.done.back().count = count;
    (count > found ? low : high) = position;
  }
  return low;
}

void Index::lookup(std::span<const std::uint64_t> blocks, const Candidates& candidates, std::size_t limit,
                   std::vector<Match>& out) const {
  thread_local Probes probes;
  out.clear();
  if (blocks.empty() || candidates.empty() || limit == 0) return;
  table_.prefetch(blocks.front());
  table_.prefetch(blocks.back());
  table_.prefetch(blocks[blocks.size() / 2]);
  probes.start(candidates.words_.size());
  // Writers at work may make the answers disagree; the matches found then lie between those before and after. Each
  // round reports at least one candidate more, so it ends.
  for (std::size_t found = 0; out.size() < limit && found < candidates.count_;) {
    const std::uint32_t position = level(blocks, candidates, found, probes);
    if (position == 0) return;
    const auto set = probes.set_at(position);
    probes.equals.clear();
    for (std::size_t word = 0; word < probes.words; ++word) {
      for (std::uint64_t left = set[word] & ~probes.reported[word]; left != 0; left &= left - 1)
        probes.equals.push_back(static_cast<PodNumber>(word * 64 + static_cast<std::size_t>(std::countr_zero(left))));
      probes.reported[word] |= set[word];
    }
    found += probes.equals.size();
    const std::size_t taken = std::min(limit - out.size(), probes.equals.size());
    for (std::size_t i = 0; i < taken; ++i) {
      const std::size_t left = probes.equals.size() - i;
      if (left > taken - i) std::swap(probes.equals[i], probes.equals[i + base::random_below(left)]);
      out.push_back({candidates.positions_[probes.equals[i]], position});
    }
  }
}

/// Brings the blocks that the pod has to the front, in the chain's order. \return how many; `cursor`: the last
std::size_t Index::refresh(Pod& pod, std::span<const std::uint64_t> blocks, Place& cursor) const {
  PodList& list = pod.list;
  std::size_t done = 0;
  while (done < blocks.size()) {
    // A chain that was recorded in one go stands in one piece, so most blocks are found by following the list.
    const Place here = list.behind(cursor);
    if (here != PodList::none && list.hash(here) == blocks[done]) {
      cursor = here;
      ++done;
      continue;
    }
    const auto first = table_.find(blocks[done], pod.number);
    if (!first) break;
    Place last = *first;
    ++done;
    for (Place next = list.next(last); done < blocks.size() && next != PodList::none; next = list.next(last)) {
      if (list.hash(next) != blocks[done]) break;
      last = next;
      ++done;
    }
    list.move(*first, last, cursor);
    cursor = last;
  }
  return done;
}

/// Adds blocks that the pod does not have behind `cursor`, in the chain's order: what is in the table is a contiguous
/// prefix at every moment, and the last blocks are the first to go.
void Index::append(Pod& pod, std::span<const std::uint64_t> blocks, Place cursor, ModelNumber model,
                   Evictions& evicted) {
  PodList& list = pod.list;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i + prefetch_ahead < blocks.size()) table_.prefetch(blocks[i + prefetch_ahead]);
    if (list.size() >= capacity_) {
      const Place oldest = list.tail();
      if (oldest == cursor) {  // only this chain is left: the rest of it does not fit
        add_evicted(evicted, model, blocks.size() - i);
        return;
      }
      add_evicted(evicted, list.model(oldest), 1);
      table_.erase(list.hash(oldest), pod.number);
      list.remove(oldest);
    }
    const Place place = list.allocate();
    try {
      table_.insert(blocks[i], pod.number, place);
    } catch (const std::bad_alloc&) {
      list.give_back(place);
      throw;
    }
    list.insert(place, cursor, blocks[i], model);
    cursor = place;
  }
}

void Index::record(PodId pod, std::span<const std::uint64_t> blocks, ModelNumber model, Evictions& evicted) noexcept {
  const PodNumber number = number_of(pod);
  if (number == no_number) return;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner != pod) return;  // it left since; the number may even be another pod's by now
  const std::size_t before = entry.list.size();
  try {
    Place cursor = PodList::none;
    const std::size_t known = refresh(entry, blocks, cursor);
    append(entry, blocks.subspan(known), cursor, model, evicted);
  } catch (const std::bad_alloc&) {
    // The blocks recorded so far are a valid prefix.
  }
  const auto grown = static_cast<std::int64_t>(entry.list.size()) - static_cast<std::int64_t>(before);
  if (grown != 0) entries_.fetch_add(grown, std::memory_order_relaxed);
}

std::size_t Index::entries() const noexcept {
  return static_cast<std::size_t>(std::max<std::int64_t>(entries_.load(std::memory_order_relaxed), 0));
}

std::size_t Index::bytes() const {
  std::size_t sum = sizeof *this + table_.bytes();
  const std::lock_guard lock(control_);
  for (const auto& segment : slots_)
    if (segment.load(std::memory_order_relaxed) != nullptr) sum += sizeof(SlotSegment);
  const std::uint32_t numbers = numbers_.load(std::memory_order_relaxed);
  sum += (numbers + segment_size - 1) / segment_size * segment_size * sizeof(Pod);
  for (std::uint32_t number = 0; number < numbers; ++number) {
    Pod& entry = pod_at(static_cast<PodNumber>(number));
    const std::lock_guard pod_lock(entry.mutex);
    sum += entry.list.bytes();
  }
  for (const auto& dead : graveyard_) sum += sizeof *dead + dead->list.bytes();
  return sum;
}

}  // namespace warmroute::prefix
