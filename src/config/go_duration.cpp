#include "config/go_duration.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace warmroute::config {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t nanoseconds;
};
// Two spellings of the micro sign, as Go accepts. Longer names first: "ms" before "m".
constexpr std::array<Unit, 8> units{{{"ns", 1},
                                     {"us", 1'000},
                                     {"\xC2\xB5s", 1'000},
                                     {"\xCE\xBCs", 1'000},
                                     {"ms", 1'000'000},
                                     {"s", 1'000'000'000},
                                     {"m", 60'000'000'000},
                                     {"h", 3'600'000'000'000}}};

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

/// Decimal fraction without trailing zeros, e.g. 1500 of 1000 -> "1.5".
std::string decimal(std::uint64_t value, std::uint64_t unit) {
  std::string out = std::to_string(value / unit);
  std::uint64_t rest = value % unit;
  if (rest == 0) return out;
  out += '.';
  while (rest != 0) {
    unit /= 10;
    out += static_cast<char>('0' + rest / unit);
    rest %= unit;
  }
  return out;
}

}  // namespace

std::optional<std::chrono::nanoseconds> parse_go_duration(std::string_view text) noexcept {
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  if (text == "0") return std::chrono::nanoseconds{0};
  if (text.empty()) return std::nullopt;
  long double total = 0;  // 64 bits of mantissa: exact for every value in range
  while (!text.empty()) {
    long double number = 0;
    long double scale = 1;
    bool digits = false;
    bool fraction = false;
    for (; !text.empty() && (is_digit(text.front()) || (text.front() == '.' && !fraction)); text.remove_prefix(1)) {
      if (text.front() == '.') {
        fraction = true;
        continue;
      }
      digits = true;
      number = number * 10 + (text.front() - '0');
      if (fraction) scale *= 10;
    }
    if (!digits) return std::nullopt;
    const Unit* unit = nullptr;
    for (const Unit& each : units) {
      if (text.substr(0, each.name.size()) == each.name) {
        unit = &each;
        break;
      }
    }
    if (unit == nullptr) return std::nullopt;
    text.remove_prefix(unit->name.size());
    total += std::trunc(number * static_cast<long double>(unit->nanoseconds) / scale);
  }
  // A NaN (infinite digits over an infinite scale) fails this comparison as well.
  if (!(total <= static_cast<long double>(std::numeric_limits<std::int64_t>::max()))) return std::nullopt;
  const auto count = static_cast<std::int64_t>(total);
  return std::chrono::nanoseconds{negative ? -count : count};
}

std::string go_duration_text(std::chrono::nanoseconds duration) {
  const std::int64_t count = duration.count();
  if (count == 0) return "0s";
  const std::string sign = count < 0 ? "-" : "";
  const std::uint64_t left = count < 0 ? 0 - static_cast<std::uint64_t>(count) : static_cast<std::uint64_t>(count);
  if (left < 1'000) return sign + std::to_string(left) + "ns";
  if (left < 1'000'000) return sign + decimal(left, 1'000) + "\xC2\xB5s";
  if (left < 1'000'000'000) return sign + decimal(left, 1'000'000) + "ms";
  const std::uint64_t minute = 60'000'000'000;
  std::string out = sign;
  if (left >= 60 * minute) out += std::to_string(left / (60 * minute)) + "h";
  if (left >= minute) out += std::to_string(left / minute % 60) + "m";
  return out + decimal(left % minute, 1'000'000'000) + "s";
}

}  // namespace warmroute::config
