#include "status/timestamp.hpp"

#include <spdlog/fmt/fmt.h>

#include <ctime>

namespace warmroute::status {
namespace {

std::tm parts_of(Moment moment) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(moment).time_since_epoch().count();
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  return parts;
}

std::string date_and_time(const std::tm& parts) {
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace

std::string to_time(Moment moment) { return date_and_time(parts_of(moment)) + "Z"; }

std::string to_micro_time(Moment moment) {
  const auto fraction = moment - std::chrono::floor<std::chrono::seconds>(moment);
  return fmt::format("{}.{:06}Z", date_and_time(parts_of(moment)), fraction.count());
}

}  // namespace warmroute::status
