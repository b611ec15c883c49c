#include "http/forward_headers.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <ctime>

#include "base/rng.hpp"

namespace warmroute::http {
namespace {

bool hop_by_hop(const Field& field) noexcept {
  switch (field.id) {
    case FieldName::connection:
    case FieldName::keep_alive:
    case FieldName::proxy_authenticate:
    case FieldName::proxy_authorization:
    case FieldName::proxy_connection:
    case FieldName::te:
    case FieldName::trailer:
    case FieldName::transfer_encoding:
    case FieldName::upgrade:
      return true;
    default:
      return false;
  }
}

// Fields that a Connection header names beside close and keep-alive. Usually there are none.
class Nominated {
 public:
  explicit Nominated(const Head& head) noexcept : head_(head) {
    for (const auto& field : head.fields)
      if (field.id == FieldName::connection && !equals_ignoring_case(field.value, "close") &&
          !equals_ignoring_case(field.value, "keep-alive"))
        any_ = true;
  }
  [[nodiscard]] bool holds(std::string_view name) const noexcept {
    if (!any_) return false;
    return std::any_of(head_.fields.begin(), head_.fields.end(), [&](const Field& field) {
      return field.id == FieldName::connection && list_holds(field.value, name);
    });
  }

 private:
  const Head& head_;
  bool any_ = false;
};

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end.ptr);
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  const auto from = out.size();
  out.resize(from + name.size() + value.size() + 4);
  auto* to = out.data() + from;
  to = std::copy(name.begin(), name.end(), to);
  *to++ = ':';
  *to++ = ' ';
  to = std::copy(value.begin(), value.end(), to);
  *to++ = '\r';
  *to = '\n';
}

bool is_request_id(const Field& field) noexcept {
  return field.id == FieldName::unknown && equals_ignoring_case(field.name, "x-request-id");
}

}  // namespace

void append_request_head(std::string& out, const Head& client, const RequestForwarding& forwarding) {
  out.append(client.method).append(" ").append(forwarding.target).append(" HTTP/1.1\r\n");
  const Nominated nominated(client);
  std::string earlier_forwarded_for;
  for (const auto& field : client.fields) {
    if (hop_by_hop(field) || field.id == FieldName::content_length || field.id == FieldName::expect) continue;
    if (is_request_id(field)) continue;
    if (field.id == FieldName::content_encoding && forwarding.drop_content_encoding) continue;
    if (field.id == FieldName::authorization && forwarding.drop_authorization) continue;
    if (field.id != FieldName::host && nominated.holds(field.name)) continue;
    if (!forwarding.forwarded_for.empty()) {
      if (equals_ignoring_case(field.name, "x-forwarded-for")) {
        if (!earlier_forwarded_for.empty()) earlier_forwarded_for += ", ";
        earlier_forwarded_for += field.value;
        continue;
      }
      if (equals_ignoring_case(field.name, "x-forwarded-proto")) continue;
    }
    append_field(out, field.name, field.value);
  }
  append_field(out, "x-request-id", forwarding.request_id);
  if (!forwarding.forwarded_for.empty()) {
    if (!earlier_forwarded_for.empty()) earlier_forwarded_for += ", ";
    earlier_forwarded_for += forwarding.forwarded_for;
    append_field(out, "X-Forwarded-For", earlier_forwarded_for);
    append_field(out, "X-Forwarded-Proto", forwarding.forwarded_proto);
  }
  if (forwarding.has_body) {
    out += "Content-Length: ";
    append_number(out, forwarding.content_length);
    out += "\r\n";
  }
  out += "\r\n";
}

void append_response_head(std::string& out, const Head& engine, const ResponseForwarding& forwarding) {
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(engine.status));
  out.append(" ").append(engine.reason).append("\r\n");
  const Nominated nominated(engine);
  bool dated = false;
  for (const auto& field : engine.fields) {
    if (hop_by_hop(field) || is_request_id(field)) continue;
    if (field.id == FieldName::content_length && !forwarding.keep_content_length) continue;
    if (nominated.holds(field.name)) continue;
    dated = dated || field.id == FieldName::date;
    append_field(out, field.name, field.value);
  }
  append_field(out, "x-request-id", forwarding.request_id);
  if (!dated) append_field(out, "Date", forwarding.date);
  if (forwarding.framing.kind == Framing::Kind::length) {
    out += "Content-Length: ";
    append_number(out, forwarding.framing.length);
    out += "\r\n";
  } else if (forwarding.framing.kind == Framing::Kind::chunked) {
    out += "Transfer-Encoding: chunked\r\n";
  }
  if (forwarding.close) {
    out += "Connection: close\r\n";
  } else if (forwarding.http10_keep_alive) {
    out += "Connection: keep-alive\r\n";
  }
  out += "\r\n";
}

bool usable_request_id(std::string_view id) noexcept {
  return !id.empty() && id.size() <= 128 &&
         std::all_of(id.begin(), id.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

void append_uuid(std::string& out) {
  static constexpr char hex[] = "0123456789abcdef";
  std::array<std::uint64_t, 2> words = {base::random64(), base::random64()};
  words[0] = (words[0] & ~0xf000ULL) | 0x4000ULL;                // version 4
  words[1] = (words[1] & ~(0xc0ULL << 56U)) | (0x80ULL << 56U);  // variant 1
  std::array<char, 36> text;
  auto* to = text.data();
  for (std::size_t byte = 0; byte < 16; ++byte) {
    if (byte == 4 || byte == 6 || byte == 8 || byte == 10) *to++ = '-';
    const auto value = words[byte / 8] >> (56 - 8 * (byte % 8)) & 0xffU;
    *to++ = hex[value >> 4U];
    *to++ = hex[value & 0xfU];
  }
  out.append(text.data(), text.size());
}

std::string_view http_date() {
  thread_local std::time_t second = -1;
  thread_local std::array<char, 32> text{};
  thread_local std::size_t size = 0;
  const std::time_t now = std::time(nullptr);
  if (now != second) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    second = now;
  }
  return {text.data(), size};
}

}  // namespace warmroute::http
