#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <iterator>

#include "metrics/access_log.hpp"

namespace warmroute::metrics {
namespace {

using model::RequestRecord;
using Steady = RequestRecord::Steady;

void append_int(std::string& out, std::int64_t value) {
  if (value >= 0 && value < 10) {
    out += static_cast<char>('0' + value);
    return;
  }
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

/// RFC 3339 with up to nanoseconds, trailing zeros trimmed, in the local zone.
void append_timestamp(std::string& out, std::chrono::system_clock::time_point when) {
  const auto since_epoch = std::chrono::duration_cast<std::chrono::nanoseconds>(when.time_since_epoch()).count();
  std::int64_t second = since_epoch / 1'000'000'000;
  std::int64_t nanos = since_epoch % 1'000'000'000;
  if (nanos < 0) {
    nanos += 1'000'000'000;
    --second;
  }
  // localtime_r takes a lock of the C library, so its result is kept for the second.
  thread_local std::int64_t kept_second = INT64_MIN;
  thread_local std::array<char, 24> date{};
  thread_local std::array<char, 8> zone{};
  if (second != kept_second) {
    const auto seconds = static_cast<std::time_t>(second);
    std::tm parts{};
    ::localtime_r(&seconds, &parts);
    std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    if (parts.tm_gmtoff == 0) {
      zone = {'Z'};
    } else {
      const long minutes = std::abs(parts.tm_gmtoff) / 60;
      *fmt::format_to_n(zone.data(), zone.size() - 1, "{}{:02}:{:02}", parts.tm_gmtoff < 0 ? '-' : '+', minutes / 60,
                        minutes % 60)
           .out = '\0';
    }
    kept_second = second;
  }
  out += date.data();
  if (nanos != 0) {
    std::array<char, 10> digits{};
    digits[0] = '.';
    for (std::size_t i = 9; i >= 1; --i, nanos /= 10) digits[i] = static_cast<char>('0' + nanos % 10);
    std::size_t length = digits.size();
    while (digits[length - 1] == '0') --length;
    out.append(digits.data(), length);
  }
  out += zone.data();
}

/// Length of the well-formed UTF-8 sequence at the start of `text`, 0 when it is not one.
std::size_t utf8_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto first = byte(0);
  if (first < 0x80) return 1;
  std::size_t length = 0;
  if (first >= 0xc2 && first <= 0xdf) length = 2;
  if (first >= 0xe0 && first <= 0xef) length = 3;
  if (first >= 0xf0 && first <= 0xf4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Overlong forms, surrogates and values above U+10FFFF.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

constexpr char hex[] = "0123456789abcdef";

void append_u_escape(std::string& out, unsigned value) {
  out += "\\u";
  for (unsigned shift = 16; shift != 0; shift -= 4) out += hex[value >> (shift - 4) & 0xfU];
}

/// \n, \r, \t or \u00XX.
void append_control(std::string& out, unsigned char byte) {
  switch (byte) {
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      append_u_escape(out, byte);
  }
}

/// U+2028 and U+2029, which some readers take for line ends.
bool is_line_separator(std::string_view sequence) noexcept {
  return sequence == "\xe2\x80\xa8" || sequence == "\xe2\x80\xa9";
}

constexpr auto plain_in_json = [](unsigned char byte) {
  return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\' && byte != '<' && byte != '>' && byte != '&';
};

constexpr auto plain_in_text = [](unsigned char byte) { return byte >= 0x20 && byte < 0x7f; };

bool printable_word(const char* eight) noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101U, high = 0x80 * ones;
  std::uint64_t word = 0;
  std::memcpy(&word, eight, 8);
  // A byte below 0x20 borrows, one of 0x7f or more carries or has the bit already.
  return (((word - 0x20 * ones) | (word + ones) | word) & high) == 0;
}

/// How many of the first bytes are printable ASCII, seen eight at a time.
std::size_t printable_words(std::string_view text) noexcept {
  std::size_t length = 0;
  while (length + 8 <= text.size() && printable_word(text.data() + length)) length += 8;
  const bool only_tail = length + 8 > text.size() && text.size() >= 8;
  return only_tail && printable_word(text.data() + (text.size() - 8)) ? text.size() : length;
}

/// Moves the leading bytes that need no escape from `text` to `out`. `skip` of them are known to need none.
template <class Plain>
void append_plain(std::string& out, std::string_view& text, Plain plain, std::size_t skip = 0) {
  const auto special = std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(skip), text.end(),
                                        [&](char c) { return plain(static_cast<unsigned char>(c)); });
  const auto length = static_cast<std::size_t>(special - text.begin());
  out.append(text.substr(0, length));
  text.remove_prefix(length);
}

/// With quotes, escaped as Go's encoding/json does.
void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    append_plain(out, text, plain_in_json);
    if (text.empty()) break;
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    const auto sequence = text.substr(0, length);
    if (length == 0) {
      out += "\\ufffd";
    } else if (length > 1) {
      if (is_line_separator(sequence))
        append_u_escape(out, sequence.back() == '\xa8' ? 0x2028 : 0x2029);
      else
        out += sequence;
    } else if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text.front();
    } else if (byte == '\b') {
      out += "\\b";
    } else if (byte == '\f') {
      out += "\\f";
    } else {
      append_control(out, byte);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  out += '"';
}

/// Raw but for what could end the line or move the cursor: C0 and C1 controls, DEL, Unicode's line separators,
/// bytes that are not UTF-8. A backslash stays as it is, as in the Go router's lines.
void append_text_value(std::string& out, std::string_view text) {
  while (!text.empty()) {
    append_plain(out, text, plain_in_text, printable_words(text));
    if (text.empty()) break;
    const auto byte = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    const auto sequence = text.substr(0, length);
    if (length == 0) {
      out += "\\x";
      out += hex[byte >> 4U];
      out += hex[byte & 0xfU];
    } else if (length == 1 && (byte < 0x20 || byte == 0x7f)) {
      append_control(out, byte);
    } else if (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0) {
      append_u_escape(out, static_cast<unsigned char>(text[1]));
    } else if (is_line_separator(sequence)) {
      append_u_escape(out, sequence.back() == '\xa8' ? 0x2028 : 0x2029);
    } else {
      out += sequence;
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

struct Durations {
  std::int64_t total = 0, request = 0, upstream = 0, response = 0;  ///< milliseconds
};

/// Missing marks are filled as in spec 17.3.
Durations durations_of(const RequestRecord& record) noexcept {
  static constexpr Steady::time_point unset{};
  const auto or_else = [](Steady::time_point mark, Steady::time_point other) { return mark != unset ? mark : other; };
  const auto end = or_else(record.finished,
                           std::max({record.started, record.parsed, record.upstream_started, record.upstream_ended}));
  const auto upstream_end = or_else(record.upstream_ended, end);
  const auto request_end = or_else(record.parsed, upstream_end);
  const auto upstream_start = or_else(record.upstream_started, request_end);
  const auto between = [](Steady::time_point from, Steady::time_point to) -> std::int64_t {
    return to > from ? std::chrono::duration_cast<std::chrono::milliseconds>(to - from).count() : 0;
  };
  return {between(record.started, end), between(record.started, request_end), between(upstream_start, upstream_end),
          between(upstream_end, end)};
}

/// What is said about the destination: nothing while none was bound.
struct Destination {
  std::string_view route, server, type, model;
  explicit Destination(const RequestRecord& record) noexcept {
    if (!record.bound) return;
    route = record.model_route;
    server = record.model_server;
    type = "model_server";
    model = record.upstream_model;
  }
};

class JsonFields {
 public:
  explicit JsonFields(std::string& out) : out_(out) {}
  void text(std::string_view key, std::string_view value) {
    begin(key);
    append_json_string(out_, value);
  }
  void text_if(std::string_view key, std::string_view value) {
    if (!value.empty()) text(key, value);
  }
  void number(std::string_view key, std::int64_t value) {
    begin(key);
    append_int(out_, value);
  }
  void number_if(std::string_view key, std::int64_t value) {
    if (value != 0) number(key, value);
  }
  void begin(std::string_view key) {
    out_ += first_ ? '{' : ',';
    first_ = false;
    out_ += '"';
    out_ += key;
    out_ += "\":";
  }

 private:
  std::string& out_;
  bool first_ = true;
};

class TextFields {
 public:
  explicit TextFields(std::string& out) : out_(out) {}
  void text_if(std::string_view key, std::string_view value) {
    if (value.empty()) return;
    begin(key);
    append_text_value(out_, value);
  }
  void number_if(std::string_view key, std::int64_t value) {
    if (value == 0) return;
    begin(key);
    append_int(out_, value);
  }
  void begin(std::string_view key) {
    const auto from = out_.size();
    out_.resize(from + key.size() + 2);
    auto* to = out_.data() + from;
    *to++ = ' ';
    to = std::copy(key.begin(), key.end(), to);
    *to = '=';
  }

 private:
  std::string& out_;
};

}  // namespace

void format_access_json(const RequestRecord& record, std::string& out) {
  const Destination to(record);
  const Durations took = durations_of(record);
  JsonFields fields(out);
  fields.begin("timestamp");
  out += '"';
  append_timestamp(out, record.arrived_at);
  out += '"';
  fields.text("method", record.method);
  fields.text("path", record.path);
  fields.text("protocol", record.protocol);
  fields.number("status_code", record.status);
  if (!record.error_type.empty()) {
    fields.begin("error");
    JsonFields error(out);
    error.text("type", record.error_type);
    error.text("message", record.error_message);
    out += '}';
  }
  fields.text("model_name", record.model);
  fields.text_if("model_route", to.route);
  fields.text_if("model_server", to.server);
  fields.text_if("selected_pod", record.selected_pod);
  fields.text_if("prefill_pod", record.prefill_pod);
  fields.text_if("request_id", record.request_id);
  fields.text_if("backend_type", to.type);
  fields.text_if("backend_name", to.server);
  fields.text_if("upstream_model", to.model);
  fields.number_if("upstream_status_code", record.upstream_status);
  fields.number_if("upstream_attempts", record.upstream_attempts);
  fields.text_if("error_origin", record.error_origin);
  fields.number_if("input_tokens", record.input_tokens);
  fields.number_if("output_tokens", record.output_tokens);
  fields.number("duration_total", took.total);
  fields.number("duration_request_processing", took.request);
  fields.number("duration_upstream_processing", took.upstream);
  fields.number("duration_response_processing", took.response);
  out += '}';
}

void format_access_text(const RequestRecord& record, std::string& out) {
  const Destination to(record);
  const Durations took = durations_of(record);
  out += '[';
  append_timestamp(out, record.arrived_at);
  out += "] \"";
  append_text_value(out, record.method);
  out += ' ';
  append_text_value(out, record.path);
  out += ' ';
  append_text_value(out, record.protocol);
  out += "\" ";
  append_int(out, record.status);
  TextFields fields(out);
  if (!record.error_type.empty()) {
    fields.begin("error");
    append_text_value(out, record.error_type);
    out += ':';
    append_text_value(out, record.error_message);
  }
  fields.text_if("model_name", record.model);
  fields.text_if("model_route", to.route);
  fields.text_if("model_server", to.server);
  fields.text_if("selected_pod", record.selected_pod);
  fields.text_if("prefill_pod", record.prefill_pod);
  fields.text_if("request_id", record.request_id);
  fields.text_if("backend_type", to.type);
  fields.text_if("backend_name", to.server);
  fields.text_if("upstream_model", to.model);
  fields.number_if("upstream_status_code", record.upstream_status);
  fields.number_if("upstream_attempts", record.upstream_attempts);
  fields.text_if("error_origin", record.error_origin);
  if (record.input_tokens > 0 || record.output_tokens > 0) {
    fields.begin("tokens");
    append_int(out, record.input_tokens);
    out += '/';
    append_int(out, record.output_tokens);
  }
  fields.begin("timings");
  append_int(out, took.total);
  out += "ms(";
  append_int(out, took.request);
  out += '+';
  append_int(out, took.upstream);
  out += '+';
  append_int(out, took.response);
  out += ')';
}

}  // namespace warmroute::metrics
