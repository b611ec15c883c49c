#include "config/yaml_scalar.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace warmroute::config {
namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) noexcept {
  return std::find(words.begin(), words.end(), text) != words.end();
}

bool digits(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// `text` without sign. nullopt: no integer, or none of 64 bits.
std::optional<std::uint64_t> unsigned_integer(std::string_view text, bool& leading_zero) noexcept {
  int base = 10;
  if (text.size() > 1 && text[0] == '0') {
    const char mark = text[1];
    if (mark == 'x' || mark == 'X') base = 16;
    if (mark == 'o' || mark == 'O') base = 8;
    if (mark == 'b' || mark == 'B') base = 2;
    if (base == 10) {
      leading_zero = digits(text);
    } else {
      text.remove_prefix(2);
    }
  }
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool looks_like_float(std::string_view text) noexcept {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  std::string_view mantissa = text.substr(0, text.find_first_of("eE"));
  if (mantissa.size() != text.size()) {
    std::string_view exponent = text.substr(mantissa.size() + 1);
    if (!exponent.empty() && (exponent[0] == '-' || exponent[0] == '+')) exponent.remove_prefix(1);
    if (!digits(exponent)) return false;
  }
  const std::size_t dot = mantissa.find('.');
  if (dot == std::string_view::npos) return digits(mantissa);
  const std::string_view whole = mantissa.substr(0, dot);
  const std::string_view fraction = mantissa.substr(dot + 1);
  if (whole.empty()) return digits(fraction);
  return digits(whole) && (fraction.empty() || digits(fraction));
}

/// nullopt: beyond the range of double, which Go leaves a string. Too small is zero.
std::optional<double> parse_float(std::string_view text) {
  const bool negative = text[0] == '-';
  if (negative || text[0] == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  (void)end;  // looks_like_float has seen the form; a final dot may be left over
  if (error == std::errc::result_out_of_range) {
    const std::size_t exponent = text.find_first_of("eE");
    const bool tiny = exponent != std::string_view::npos ? text[exponent + 1] == '-' : text.find('.') <= 1;
    if (!tiny) return std::nullopt;
    value = 0;
  } else if (error != std::errc{}) {
    return std::nullopt;
  }
  return negative ? -value : value;
}

std::optional<YamlScalar> resolve_number(std::string_view text) {
  std::string plain(text);
  std::erase(plain, '_');
  if (plain.empty()) return std::nullopt;
  const bool negative = plain[0] == '-';
  const std::string_view magnitude = std::string_view(plain).substr(negative || plain[0] == '+' ? 1 : 0);
  bool leading_zero = false;
  if (const auto value = unsigned_integer(magnitude, leading_zero)) {
    constexpr auto top = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!negative && *value <= top) return YamlScalar{static_cast<std::int64_t>(*value), leading_zero};
    if (!negative) return YamlScalar{*value, leading_zero};
    if (*value <= top) return YamlScalar{-static_cast<std::int64_t>(*value), leading_zero};
    if (*value == top + 1) return YamlScalar{std::numeric_limits<std::int64_t>::min(), leading_zero};
  }
  if (!looks_like_float(plain)) return std::nullopt;
  if (const auto value = parse_float(plain)) return YamlScalar{*value, leading_zero};
  return std::nullopt;
}

}  // namespace

YamlScalar resolve_plain_scalar(std::string_view text) {
  if (text.empty() || one_of(text, {"~", "null", "Null", "NULL"})) return {};
  if (one_of(text, {"true", "True", "TRUE"})) return {true};
  if (one_of(text, {"false", "False", "FALSE"})) return {false};
  if (one_of(text, {".nan", ".NaN", ".NAN"})) return {std::numeric_limits<double>::quiet_NaN()};
  if (one_of(text, {".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"})) {
    return {std::numeric_limits<double>::infinity()};
  }
  if (one_of(text, {"-.inf", "-.Inf", "-.INF"})) return {-std::numeric_limits<double>::infinity()};
  const char first = text[0];
  if ((first >= '0' && first <= '9') || first == '+' || first == '-' || first == '.') {
    if (auto number = resolve_number(text)) return *std::move(number);
  }
  return {std::string(text)};
}

bool boolean_word(std::string_view text, bool& value) noexcept {
  if (one_of(text, {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})) {
    value = true;
    return true;
  }
  if (one_of(text, {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})) {
    value = false;
    return true;
  }
  return false;
}

}  // namespace warmroute::config
