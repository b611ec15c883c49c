#include "faults.hpp"

#include <charconv>

#include "text.hpp"

namespace warmroute::mock {
namespace {

bool parse_where(std::string_view text, Where& where) {
  if (text == "before-headers")
    where = Where::before_headers;
  else if (text == "after-headers")
    where = Where::after_headers;
  else if (text == "mid-stream")
    where = Where::mid_stream;
  else
    return false;
  return true;
}

bool parse_number(std::string_view text, std::int64_t most, std::int64_t& value) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  return ec == std::errc{} && end == text.data() + text.size() && value >= 0 && value <= most;
}

bool parse_part(std::string_view part, Fault& fault) {
  const auto equals = part.find('=');
  const std::string_view name = trimmed(part.substr(0, equals));
  const std::string_view value = equals == std::string_view::npos ? "" : trimmed(part.substr(equals + 1));
  if (name == "bad-chunk") return fault.bad_chunk = value.empty();
  if (name == "reset") return parse_where(value, fault.reset);
  if (name == "close") return parse_where(value, fault.close);
  if (name == "stall") return parse_where(value, fault.stall);
  if (name == "only") {
    fault.only = value;
    return !value.empty();
  }
  std::int64_t number = 0;
  if (!parse_number(value, std::int64_t{1} << 32U, number)) return false;
  if (name == "status") {
    fault.status = static_cast<int>(number);
    return number >= 200 && number <= 999;
  }
  if (name == "retry-after")
    fault.retry_after_s = static_cast<int>(number);
  else if (name == "delay")
    fault.delay = std::chrono::milliseconds(number);
  else if (name == "drip")
    fault.drip = std::chrono::milliseconds(number);
  else if (name == "huge-headers")
    fault.huge_headers_bytes = static_cast<std::size_t>(number);
  else if (name == "truncate")
    fault.truncate_bytes = static_cast<std::uint64_t>(number);
  else
    return false;
  return true;
}

}  // namespace

Fault parse_fault(std::string_view text, std::string& error) {
  Fault fault;
  error.clear();
  while (!text.empty()) {
    const auto end = text.find_first_of(";,");
    const std::string_view part = trimmed(text.substr(0, end));
    if (!part.empty() && !parse_part(part, fault)) error = "unknown fault: " + std::string(part);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  }
  return fault;
}

}  // namespace warmroute::mock
