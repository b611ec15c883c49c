#pragma once
// A small dense number for each thread that counts. A slot has one owner at a time, so a cell that belongs to a slot
// has one writer and needs no read-modify-write instruction. A thread that ends hands its slot, with what was counted
// in it, to a later thread.

#include <cstdint>

namespace warmroute::metrics {

inline constexpr std::uint32_t owned_slots = 128;
/// Shared by all threads beyond the first 128; its cells are changed by compare-and-swap.
inline constexpr std::uint32_t shared_slot = owned_slots;
inline constexpr std::uint32_t slot_count = owned_slots + 1;

namespace detail {
inline constexpr std::uint32_t no_slot = UINT32_MAX;
inline thread_local std::uint32_t this_slot = no_slot;
std::uint32_t take_slot() noexcept;
}  // namespace detail

/// The calling thread's slot, 0..shared_slot.
[[nodiscard]] inline std::uint32_t thread_slot() noexcept {
  return detail::this_slot != detail::no_slot ? detail::this_slot : detail::take_slot();
}

}  // namespace warmroute::metrics
