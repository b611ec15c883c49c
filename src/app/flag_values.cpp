#include "app/flag_values.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

namespace warmroute::app {
namespace {

bool one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

/// Nanoseconds of a unit; 0: unknown.
double unit_nanoseconds(std::string_view unit) {
  if (unit == "ns") return 1;
  if (one_of(unit, {"us", "\xC2\xB5s", "\xCE\xBCs"})) return 1e3;
  if (unit == "ms") return 1e6;
  if (unit == "s") return 1e9;
  if (unit == "m") return 60e9;
  if (unit == "h") return 3600e9;
  return 0;
}

bool is_number_char(char c) { return (c >= '0' && c <= '9') || c == '.'; }

}  // namespace

Result<bool> parse_bool(std::string_view text) {
  if (one_of(text, {"1", "t", "T", "TRUE", "true", "True"})) return true;
  if (one_of(text, {"0", "f", "F", "FALSE", "false", "False"})) return false;
  return value_error("must be true or false");
}

Result<std::int64_t> parse_int(std::string_view text, std::int64_t min, std::int64_t max) {
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative || text.starts_with('+') ? 1 : 0);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char mark = digits[1];
    if (mark == 'x' || mark == 'X') base = 16;
    if (mark == 'o' || mark == 'O') base = 8;
    if (mark == 'b' || mark == 'B') base = 2;
    if (base != 10) digits.remove_prefix(2);
  }
  std::uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), magnitude, base);
  constexpr auto top = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool whole = !digits.empty() && end == digits.data() + digits.size();
  if (whole && (error == std::errc::result_out_of_range || magnitude > top)) return value_error("is out of range");
  if (!whole || error != std::errc{}) return value_error("must be an integer");
  const std::int64_t value = negative ? -static_cast<std::int64_t>(magnitude) : static_cast<std::int64_t>(magnitude);
  if (value >= min && value <= max) return value;
  if (max == std::numeric_limits<std::int64_t>::max()) return value_error(fmt::format("must be at least {}", min));
  return value_error(fmt::format("must be between {} and {}", min, max));
}

Result<double> parse_float(std::string_view text) {
  double value = 0;
  const std::string_view digits = text.substr(text.starts_with('+') ? 1 : 0);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc{} || end != digits.data() + digits.size()) return value_error("must be a number");
  return value;
}

Result<std::chrono::milliseconds> parse_duration(std::string_view text) {
  const std::string_view whole = text;
  const auto invalid = [&] { return value_error(fmt::format("invalid duration \"{}\", try 300ms or 1m30s", whole)); };
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text == "0") return std::chrono::milliseconds(0);
  if (text.empty()) return invalid();
  double nanoseconds = 0;
  while (!text.empty()) {
    const auto number_end =
        static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_number_char) - text.begin());
    const std::string_view number = text.substr(0, number_end);
    text.remove_prefix(number_end);
    const auto unit_end =
        static_cast<std::size_t>(std::find_if(text.begin(), text.end(), is_number_char) - text.begin());
    const std::string_view unit = text.substr(0, unit_end);
    text.remove_prefix(unit_end);
    double value = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), value, std::chars_format::fixed);
    if (error != std::errc{} || end != number.data() + number.size()) return invalid();
    if (unit.empty()) return value_error(fmt::format("missing unit in duration \"{}\", try {}s", whole, whole));
    const double factor = unit_nanoseconds(unit);
    if (factor == 0) return value_error(fmt::format("unknown unit \"{}\" in duration \"{}\"", unit, whole));
    nanoseconds += value * factor;
  }
  if (nanoseconds >= 0x1p63) return invalid();  // as in Go: 292 years
  const double milliseconds = std::ceil(nanoseconds / 1e6);
  return std::chrono::milliseconds(static_cast<std::int64_t>(negative ? -milliseconds : milliseconds));
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const auto number_end =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_number_char) - text.begin());
  const std::string_view number = text.substr(0, number_end);
  const std::string_view unit = text.substr(number_end);
  std::uint64_t factor = 0;
  if (unit.empty() || unit == "B") factor = 1;
  if (one_of(unit, {"KiB", "Ki"})) factor = 1ULL << 10U;
  if (one_of(unit, {"MiB", "Mi"})) factor = 1ULL << 20U;
  if (one_of(unit, {"GiB", "Gi"})) factor = 1ULL << 30U;
  if (one_of(unit, {"TiB", "Ti"})) factor = 1ULL << 40U;
  std::uint64_t whole = 0;
  const char* const last = number.data() + number.size();
  if (const auto [end, error] = std::from_chars(number.data(), last, whole);
      factor != 0 && error == std::errc{} && end == last) {
    if (whole > std::numeric_limits<std::uint64_t>::max() / factor) return value_error("is out of range");
    return whole * factor;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), last, value, std::chars_format::fixed);
  if (factor <= 1 || error != std::errc{} || end != last) {
    return value_error("must be a size in bytes, or like 64KiB, 16MiB, 2GiB");
  }
  if (value * static_cast<double>(factor) >= 0x1p63) return value_error("is out of range");
  return static_cast<std::uint64_t>(value * static_cast<double>(factor));
}

std::string show_duration(std::chrono::milliseconds value) {
  const std::int64_t count = value.count();
  if (count == 0) return "0s";
  const std::string sign = count < 0 ? "-" : "";
  const std::int64_t total = count < 0 ? -count : count;
  if (total < 1000) return fmt::format("{}{}ms", sign, total);
  const std::int64_t seconds = total / 1000;
  std::string out = fmt::format("{}", seconds % 60);
  if (total % 1000 != 0) {
    std::string fraction = fmt::format("{:03}", total % 1000);
    while (fraction.back() == '0') fraction.pop_back();
    out += "." + fraction;
  }
  out += 's';
  if (seconds >= 60) out = fmt::format("{}m{}", seconds / 60 % 60, out);
  if (seconds >= 3600) out = fmt::format("{}h{}", seconds / 3600, out);
  return sign + out;
}

std::string show_bytes(std::uint64_t value) {
  constexpr std::array<std::pair<unsigned, const char*>, 3> units{{{30U, "GiB"}, {20U, "MiB"}, {10U, "KiB"}}};
  for (const auto& [shift, name] : units) {
    const std::uint64_t unit = 1ULL << shift;
    if (value >= unit && value % unit == 0) return fmt::format("{}{}", value / unit, name);
  }
  return std::to_string(value);
}

}  // namespace warmroute::app
