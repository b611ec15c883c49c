#pragma once
// From a plugin's formula to the integer that the pipeline adds up.

#include <cmath>
#include <cstdint>
#include <limits>

namespace warmroute {

/// Cuts the fraction off, towards zero. NaN gives 0, what does not fit gives the nearest limit: the conversion
/// of such values is undefined in C++.
[[nodiscard]] inline std::int64_t truncated_score(double value) noexcept {
  if (std::isnan(value)) return 0;
  if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
  if (value < -0x1p63) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(value);
}

}  // namespace warmroute
