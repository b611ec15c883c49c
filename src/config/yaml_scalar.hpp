#pragma once
// What a plain YAML scalar means.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace warmroute::config {

struct YamlScalar {
  /// uint64 only above the range of int64; monostate is null.
  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string> value;
  bool leading_zero = false;  ///< `010`, which Go reads as eight and YAML 1.2 as ten
};

/// Resolves an unquoted scalar as Go's yaml.v3 does, but for leading zeros, which are decimal.
[[nodiscard]] YamlScalar resolve_plain_scalar(std::string_view text);

/// YAML 1.1's words for booleans, true and false included. \return whether `text` is one; then `value` is set.
[[nodiscard]] bool boolean_word(std::string_view text, bool& value) noexcept;

}  // namespace warmroute::config
