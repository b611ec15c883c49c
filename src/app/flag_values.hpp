#pragma once
// Values of flags and variables in Go's notation. Each parser gives the value or says what is wrong.

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "warmroute/result.hpp"

namespace warmroute::app {

/// strconv.ParseBool: 1, t, T, TRUE, true, True, 0, f, F, FALSE, false, False.
[[nodiscard]] Result<bool> parse_bool(std::string_view text);
/// Decimal, 0x, 0o and 0b; out of range is an error that names the range.
[[nodiscard]] Result<std::int64_t> parse_int(std::string_view text,
                                             std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                                             std::int64_t max = std::numeric_limits<std::int64_t>::max());
[[nodiscard]] Result<double> parse_float(std::string_view text);
/// time.ParseDuration: 300ms, 1m30s, 1.5h, -2s, 0. Parts of a millisecond are rounded up, away from zero.
[[nodiscard]] Result<std::chrono::milliseconds> parse_duration(std::string_view text);
/// Bytes, or a number (also 1.5) with KiB, MiB, GiB, TiB or the first two letters of these.
[[nodiscard]] Result<std::uint64_t> parse_bytes(std::string_view text);

/// As Go prints a duration: 5m0s, 1.5s, 300ms, 0s.
[[nodiscard]] std::string show_duration(std::chrono::milliseconds value);
/// The largest unit that divides: 64KiB, 1000.
[[nodiscard]] std::string show_bytes(std::uint64_t value);

}  // namespace warmroute::app
