#pragma once
// The blocks of one pod, most recently used first: a doubly linked list in chunks of its own, 16 bytes a block.
// Not synchronized.

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "prefix/pod_set.hpp"

namespace warmroute::prefix {

using ModelNumber = std::uint16_t;

class PodList {
 public:
  static constexpr Place none = 0xFFFFFF;

  struct Entry {
    std::uint64_t hash = 0;
    std::uint64_t links = 0;  ///< previous and next place, 24 bits each, and 16 bits of model
  };

  PodList() = default;
  PodList(const PodList&) = delete;
  PodList& operator=(const PodList&) = delete;

  void swap(PodList& other) noexcept {
    chunks_.swap(other.chunks_);
    std::swap(size_, other.size_);
    std::swap(head_, other.head_);
    std::swap(tail_, other.tail_);
    std::swap(unused_, other.unused_);
    std::swap(touched_, other.touched_);
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Place head() const noexcept { return head_; }
  [[nodiscard]] Place tail() const noexcept { return tail_; }
  [[nodiscard]] std::uint64_t hash(Place at) const noexcept { return entry(at).hash; }
  [[nodiscard]] ModelNumber model(Place at) const noexcept { return static_cast<ModelNumber>(entry(at).links >> 48U); }
  [[nodiscard]] Place next(Place at) const noexcept { return static_cast<Place>(entry(at).links >> 24U) & none; }
  [[nodiscard]] Place previous(Place at) const noexcept { return static_cast<Place>(entry(at).links) & none; }
  /// The one behind `at`, or the first for none.
  [[nodiscard]] Place behind(Place at) const noexcept { return at == none ? head_ : next(at); }

  /// A place that is in no list yet. \throws std::bad_alloc
  [[nodiscard]] Place allocate() {
    if (unused_ != none) return std::exchange(unused_, next(unused_));
    if (touched_ == chunks_.size() * chunk_size) chunks_.push_back(std::make_unique<Chunk>());
    return touched_++;
  }
  void give_back(Place at) noexcept {
    set_next(at, unused_);
    unused_ = at;
  }

  /// Links an allocated place behind `after` (none: in front).
  void insert(Place at, Place after, std::uint64_t hash, ModelNumber model) noexcept {
    entry(at) = {hash, std::uint64_t{model} << 48U};
    join(after, at, at);
    ++size_;
  }
  /// Takes the entry out; its place is given back.
  void remove(Place at) noexcept {
    part(at, at);
    --size_;
    give_back(at);
  }
  /// Moves the run first..last (neighbours in this order) behind `after`, which is not part of it.
  void move(Place first, Place last, Place after) noexcept {
    part(first, last);
    join(after, first, last);
  }
  [[nodiscard]] std::size_t bytes() const noexcept {
    return chunks_.size() * sizeof(Chunk) + chunks_.capacity() * sizeof(void*);
  }

 private:
  static constexpr std::size_t chunk_size = 512;
  using Chunk = std::array<Entry, chunk_size>;

  [[nodiscard]] Entry& entry(Place at) const noexcept {
    assert(at < touched_);
    return (*chunks_[at / chunk_size])[at % chunk_size];
  }
  void set_next(Place at, Place to) noexcept {
    std::uint64_t& links = entry(at).links;
    links = (links & ~(std::uint64_t{none} << 24U)) | (std::uint64_t{to} << 24U);
  }
  void set_previous(Place at, Place to) noexcept {
    std::uint64_t& links = entry(at).links;
    links = (links & ~std::uint64_t{none}) | to;
  }
  void part(Place first, Place last) noexcept {
    const Place before = previous(first), after = next(last);
    if (before == none) {
      head_ = after;
    } else {
      set_next(before, after);
    }
    if (after == none) {
      tail_ = before;
    } else {
      set_previous(after, before);
    }
  }
  void join(Place before, Place first, Place last) noexcept {
    const Place after = behind(before);
    set_previous(first, before);
    set_next(last, after);
    if (before == none) {
      head_ = first;
    } else {
      set_next(before, first);
    }
    if (after == none) {
      tail_ = last;
    } else {
      set_previous(after, last);
    }
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::size_t size_ = 0;
  Place head_ = none, tail_ = none, unused_ = none;
  Place touched_ = 0;  ///< places ever handed out
};

}  // namespace warmroute::prefix
