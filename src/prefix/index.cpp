#include "prefix/index.hpp"

#include <algorithm>
#include <cassert>
#include <new>
#include <utility>

#include "prefix/index_pod.hpp"

namespace warmroute::prefix {
namespace {

constexpr std::size_t prefetch_ahead = 6;  ///< blocks; enough to cover a memory access, few enough to stay cached
constexpr std::size_t evictions_per_block = 4;

std::atomic<std::uint64_t> next_id{1};

}  // namespace

Index::Index(std::size_t capacity) : capacity_(capacity), id_(next_id.fetch_add(1)) {
  assert(capacity >= 1 && capacity <= max_capacity);
}

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
    entry.capacity = capacity_;
  }
  const std::uint64_t value = (std::uint64_t{pod.generation} << 32U) | number;
  (*segment.load(std::memory_order_relaxed))[pod.slot % segment_size].store(value, std::memory_order_release);
  membership_.fetch_add(1, std::memory_order_release);
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
    std::vector<EarlyChain>().swap(entry.early);  // its memory too
  }
  (*slots_[pod.slot / segment_size].load(std::memory_order_relaxed))[pod.slot % segment_size].store(
      0, std::memory_order_release);
  membership_.fetch_add(1, std::memory_order_release);
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

/// Adds the blocks from `known` on, which the pod does not have, behind `cursor`, in the chain's order: what is in the
/// table is a contiguous prefix at every moment, and the last blocks are the first to go.
void Index::append(Pod& pod, std::span<const std::uint64_t> blocks, std::size_t known, Place cursor, ModelNumber model,
                   Evictions& evicted) {
  PodList& list = pod.list;
  // What will be evicted is looked for some entries ahead of what is, or each would wait for memory.
  Place scout = list.size() + (blocks.size() - known) > pod.capacity ? list.tail() : PodList::none;
  const auto scout_on = [&] {
    if (scout == PodList::none) return;
    table_.prefetch(list.hash(scout));
    scout = list.previous(scout);
  };
  for (std::size_t ahead = 0; ahead < prefetch_ahead; ++ahead) scout_on();
  for (std::size_t i = known; i < blocks.size(); ++i) {
    if (i + prefetch_ahead < blocks.size()) table_.prefetch(blocks[i + prefetch_ahead]);
    scout_on();
    if (i >= pod.capacity) {  // only this chain is left: the rest of it does not fit
      add_evicted(evicted, model, blocks.size() - i);
      return;
    }
    // More than one where the capacity shrank: then a list gets shorter while it is used, without a long stop.
    for (std::size_t step = 0; step < evictions_per_block && list.size() >= pod.capacity; ++step) {
      const Place oldest = list.tail();
      if (oldest == cursor) break;
      add_evicted(evicted, list.model(oldest), 1);
      pod.remove(table_, oldest);
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

/// Under the pod's lock. \return how many blocks the pod had before
std::size_t Index::write(Pod& pod, std::span<const std::uint64_t> blocks, ModelNumber model,
                         Evictions& evicted) noexcept {
  const std::size_t before = pod.list.size();
  std::size_t known = 0;
  try {
    Place cursor = PodList::none;
    known = refresh(pod, blocks, cursor);
    append(pod, blocks, known, cursor, model, evicted);
  } catch (const std::bad_alloc&) {
    // The blocks recorded so far are a valid prefix.
  }
  count(before, pod.list.size());
  return known;
}

void Index::count(std::size_t before, std::size_t after) noexcept {
  if (after != before)
    entries_.fetch_add(static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before), std::memory_order_relaxed);
}

void Index::record(PodId pod, std::span<const std::uint64_t> blocks, ModelNumber model, Evictions& evicted,
                   CreditId credit) noexcept {
  const PodNumber number = number_of(pod);
  if (number == no_number) return;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner != pod) return;  // it left since; the number may even be another pod's by now
  if (!entry.early.empty()) confirm(entry, blocks, credit);
  (void)write(entry, blocks, model, evicted);
}

void Index::set_capacity(PodId pod, std::size_t capacity) noexcept {
  const PodNumber number = number_of(pod);
  if (number == no_number) return;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner == pod) entry.capacity = std::clamp<std::size_t>(capacity, 1, max_capacity);
}

PodFill Index::fill(PodId pod) const noexcept {
  const PodNumber number = number_of(pod);
  if (number == no_number) return {};
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  return entry.owner == pod ? PodFill{entry.list.size(), entry.capacity} : PodFill{};
}

bool Index::drop_oldest(PodId pod, std::uint64_t until, std::size_t most, Evictions& dropped) {
  const PodNumber number = number_of(pod);
  if (number == no_number) return false;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner != pod || !table_.find(until, number)) return false;
  PodList& list = entry.list;
  const std::size_t before = list.size();
  bool reached = false;
  for (; most > 0 && list.size() > 0 && !reached; --most) {
    const Place oldest = list.tail();
    reached = list.hash(oldest) == until;
    add_evicted(dropped, list.model(oldest), 1);
    entry.remove(table_, oldest);
  }
  count(before, list.size());
  return !reached;
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
    sum += entry.list.bytes() + entry.early.capacity() * sizeof(EarlyChain);
    for (const auto& chain : entry.early) sum += chain.blocks.capacity() * sizeof(std::uint64_t);
  }
  for (const auto& dead : graveyard_) sum += sizeof *dead + dead->list.bytes();
  return sum;
}

}  // namespace warmroute::prefix
