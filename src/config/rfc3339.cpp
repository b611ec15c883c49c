#include "config/rfc3339.hpp"

#include <chrono>

namespace warmroute::config {
namespace {

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar.
std::int64_t days_of(std::int64_t year, unsigned month, unsigned day) noexcept {
  using namespace std::chrono;
  return sys_days{std::chrono::year{static_cast<int>(year)} / std::chrono::month{month} / std::chrono::day{day}}
      .time_since_epoch()
      .count();
}

}  // namespace

std::optional<std::int64_t> parse_rfc3339(std::string_view text) {
  auto digits = [&](std::size_t at, std::size_t count) -> std::optional<unsigned> {
    if (at + count > text.size()) return std::nullopt;
    unsigned value = 0;
    for (const char c : text.substr(at, count)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + static_cast<unsigned>(c - '0');
    }
    return value;
  };
  const auto year = digits(0, 4), month = digits(5, 2), day = digits(8, 2);
  const auto hour = digits(11, 2), minute = digits(14, 2), second = digits(17, 2);
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't') || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year{static_cast<int>(*year)}, std::chrono::month{*month},
                                         std::chrono::day{*day}};
  if (!date.ok() || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  std::int64_t seconds = days_of(*year, *month, *day) * 86400 + *hour * 3600 + *minute * 60 + *second;
  text.remove_prefix(19);
  if (!text.empty() && text.front() == '.') {
    const std::size_t end = text.find_first_not_of("0123456789", 1);
    if (end == 1 || end == std::string_view::npos) return std::nullopt;
    text.remove_prefix(end);
  }
  if (text == "Z" || text == "z") return seconds;
  const auto zone_hour = digits(1, 2), zone_minute = digits(4, 2);
  if (text.size() != 6 || text[3] != ':' || !zone_hour || !zone_minute || *zone_hour > 23 || *zone_minute > 59) {
    return std::nullopt;
  }
  const std::int64_t offset = *zone_hour * 3600 + *zone_minute * 60;
  if (text[0] == '+') return seconds - offset;
  if (text[0] == '-') return seconds + offset;
  return std::nullopt;
}

}  // namespace warmroute::config
