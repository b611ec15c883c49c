#include "prefix/pod_set.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace warmroute::prefix {
namespace {

constexpr std::uint64_t bit_of(PodNumber pod) noexcept { return std::uint64_t{1} << (pod % 64U); }

}  // namespace

PodSet::~PodSet() { ::operator delete(memory_); }

PodSet::Layout PodSet::layout(std::size_t words, std::size_t capacity) noexcept {
  Layout result;
  result.places = words * sizeof(std::uint64_t);
  result.pods = result.places + capacity * sizeof(Place);
  result.end = result.pods + (words == 0 ? capacity * sizeof(PodNumber) : 0);
  return result;
}

std::uint64_t* PodSet::bits() const noexcept { return reinterpret_cast<std::uint64_t*>(memory_); }
Place* PodSet::places() const noexcept { return reinterpret_cast<Place*>(memory_ + layout(words_, capacity_).places); }
PodNumber* PodSet::pods() const noexcept {
  return reinterpret_cast<PodNumber*>(memory_ + layout(words_, capacity_).pods);
}

/// How many pods with a smaller number are in the set: the index of the pod's place.
std::size_t PodSet::rank(PodNumber pod) const noexcept {
  if (words_ == 0) {
    const PodNumber* begin = pods();
    return static_cast<std::size_t>(std::lower_bound(begin, begin + count_, pod) - begin);
  }
  const std::size_t word = pod / 64U;
  std::size_t before = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(word, words_); ++i)
    before += static_cast<std::size_t>(std::popcount(bits()[i]));
  if (word < words_) before += static_cast<std::size_t>(std::popcount(bits()[word] & (bit_of(pod) - 1)));
  return before;
}

std::optional<Place> PodSet::find(PodNumber pod) const noexcept {
  if (words_ == 0) {
    const std::size_t at = rank(pod);
    if (at == count_ || pods()[at] != pod) return std::nullopt;
    return places()[at];
  }
  if (pod / 64U >= words_ || (bits()[pod / 64U] & bit_of(pod)) == 0) return std::nullopt;
  return places()[rank(pod)];
}

template <class Each>
void PodSet::for_each(Each&& each) const {
  if (words_ == 0) {
    for (std::size_t i = 0; i < count_; ++i) each(pods()[i]);
    return;
  }
  for (std::size_t word = 0; word < words_; ++word)
    for (std::uint64_t left = bits()[word]; left != 0; left &= left - 1)
      each(static_cast<PodNumber>(word * 64 + static_cast<std::size_t>(std::countr_zero(left))));
}

/// The same pods in new memory: with `words` of bitmap, room for `capacity` pods.
void PodSet::rebuild(std::size_t words, std::size_t capacity) {
  const Layout to = layout(words, capacity);
  auto* memory = static_cast<std::byte*>(::operator new(to.end));
  if (count_ > 0) std::memcpy(memory + to.places, places(), count_ * sizeof(Place));
  auto* new_bits = reinterpret_cast<std::uint64_t*>(memory);
  auto* new_pods = reinterpret_cast<PodNumber*>(memory + to.pods);
  std::fill_n(new_bits, words, 0);
  std::size_t next = 0;
  for_each([&](PodNumber pod) {
    if (words == 0) {
      new_pods[next++] = pod;
    } else {
      new_bits[pod / 64U] |= bit_of(pod);
    }
  });
  ::operator delete(memory_);
  memory_ = memory;
  capacity_ = static_cast<std::uint32_t>(capacity);
  words_ = static_cast<std::uint32_t>(words);
}

void PodSet::insert(PodNumber pod, Place place) {
  std::size_t words = words_;
  if (words == 0 && count_ + 1 >= dense_from) words = pods()[count_ - 1] / 64U + 1;
  if (words != 0) words = std::max<std::size_t>(words, pod / 64U + 1);
  if (words != words_ || count_ == capacity_)
    rebuild(words, count_ < capacity_ ? capacity_ : std::max<std::size_t>(4, count_ + count_ / 2));
  const std::size_t at = rank(pod);
  std::copy_backward(places() + at, places() + count_, places() + count_ + 1);
  places()[at] = place;
  if (words_ == 0) {
    std::copy_backward(pods() + at, pods() + count_, pods() + count_ + 1);
    pods()[at] = pod;
  } else {
    bits()[pod / 64U] |= bit_of(pod);
  }
  ++count_;
}

void PodSet::erase(PodNumber pod) noexcept {
  const std::size_t at = rank(pod);
  std::copy(places() + at + 1, places() + count_, places() + at);
  if (words_ == 0) {
    std::copy(pods() + at + 1, pods() + count_, pods() + at);
  } else {
    bits()[pod / 64U] &= ~bit_of(pod);
  }
  --count_;
  const bool too_wide = words_ != 0 && count_ < sparse_below;
  const bool too_large = count_ >= 4 && count_ * 2 < capacity_;
  if (!too_wide && !too_large) return;
  try {
    rebuild(too_wide ? 0 : words_, std::max<std::size_t>(4, count_));
  } catch (const std::bad_alloc&) {
    // The larger memory serves as well.
  }
}

std::size_t PodSet::intersect(std::span<const std::uint64_t> candidates,
                              std::span<std::uint64_t> found) const noexcept {
  std::size_t count = 0;
  if (words_ == 0) {
    for (std::size_t i = 0; i < count_; ++i) {
      const PodNumber pod = pods()[i];
      if (pod / 64U >= candidates.size() || (candidates[pod / 64U] & bit_of(pod)) == 0) continue;
      found[pod / 64U] |= bit_of(pod);
      ++count;
    }
    return count;
  }
  for (std::size_t word = 0; word < std::min<std::size_t>(words_, candidates.size()); ++word) {
    found[word] |= bits()[word] & candidates[word];
    count += static_cast<std::size_t>(std::popcount(bits()[word] & candidates[word]));
  }
  return count;
}

PodNumber PodSet::first() const noexcept {
  PodNumber found = 0;
  for_each([&](PodNumber pod) { found = pod; });
  return found;
}

std::size_t PodSet::bytes() const noexcept { return sizeof *this + layout(words_, capacity_).end; }

}  // namespace warmroute::prefix
