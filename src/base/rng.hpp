#pragma once
// One fast generator per thread, seeded from the system once (never per pick: that made equal scores always choose
// the same pod elsewhere). Tests may seed it.

#include <cstdint>

namespace warmroute::base {

/// Uniform 64 bits from the calling thread's generator (xoshiro256++).
[[nodiscard]] std::uint64_t random64() noexcept;
/// Uniform in [0, bound) without modulo bias worth speaking of; bound > 0.
[[nodiscard]] std::uint64_t random_below(std::uint64_t bound) noexcept;
/// Makes the calling thread's sequence repeatable.
void seed_this_thread(std::uint64_t seed) noexcept;

}  // namespace warmroute::base
