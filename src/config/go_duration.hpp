#pragma once
// Durations as Go writes and reads them ("1m30s", "100ms"): the form of metav1.Duration fields.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace warmroute::config {

/// nullopt: not a duration or beyond 64 bits of nanoseconds.
[[nodiscard]] std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text) noexcept;
/// Go's shortest form: "0s", "1.5s", "100ms", "2h0m0s".
[[nodiscard]] std::string go_duration_text(std::chrono::nanoseconds duration);

}  // namespace warmroute::config
