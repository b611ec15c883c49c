#pragma once
// The pods that hold one block, when there are many: each with the place of the block in its own list. One piece of
// memory, 6 bytes a pod while there are few; from dense_from pods on a bitmap, whose intersection with the candidates
// costs one instruction for 64 pods.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace warmroute::prefix {

using PodNumber = std::uint16_t;  ///< dense number of a pod inside the index
using Place = std::uint32_t;      ///< of an entry in its pod's list; 24 bits

class PodSet {
 public:
  static constexpr std::size_t dense_from = 32;
  static constexpr std::size_t sparse_below = 16;

  PodSet() = default;
  PodSet(const PodSet&) = delete;
  PodSet& operator=(const PodSet&) = delete;
  ~PodSet();

  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] std::optional<Place> find(PodNumber pod) const noexcept;
  /// \pre the pod is not in the set. \throws std::bad_alloc, and then nothing changed
  void insert(PodNumber pod, Place place);
  /// \pre the pod is in the set. Takes no memory but to shrink; when that fails the old stays in use.
  void erase(PodNumber pod) noexcept;
  /// Sets the bit of each pod that is also in `candidates`; `found` has as many words. \return how many are
  std::size_t intersect(std::span<const std::uint64_t> candidates, std::span<std::uint64_t> found) const noexcept;
  /// The only pod. \pre size() == 1
  [[nodiscard]] PodNumber first() const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  struct Layout {
    std::size_t places = 0, pods = 0, end = 0;  ///< byte offsets behind the bitmap
  };
  [[nodiscard]] static Layout layout(std::size_t words, std::size_t capacity) noexcept;
  [[nodiscard]] std::uint64_t* bits() const noexcept;
  [[nodiscard]] Place* places() const noexcept;
  [[nodiscard]] PodNumber* pods() const noexcept;  ///< sorted; only without a bitmap
  [[nodiscard]] std::size_t rank(PodNumber pod) const noexcept;
  void rebuild(std::size_t words, std::size_t capacity);
  template <class Each>
  void for_each(Each&& each) const;

  std::byte* memory_ = nullptr;
  std::uint32_t count_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint32_t words_ = 0;  ///< 0: no bitmap
};

}  // namespace warmroute::prefix
