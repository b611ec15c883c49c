#include "http/framing.hpp"

#include <algorithm>
#include <charconv>

namespace warmroute::http {
namespace {

struct Refuse {
  Source side;
  Retry retry;
  [[nodiscard]] Error operator()(const char* why, Errc code = Errc::bad_framing) const {
    return Error{code, side, retry, why};
  }
};

bool all_digits(std::string_view text) noexcept {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "Transfer-Encoding: chunked\t" is legal to the letter, but peers disagree about it: only the bare value passes.
bool ends_at_line_end(std::string_view value) noexcept { return value.data()[value.size()] == '\r'; }

Error judge_coding(std::string_view value, const Refuse& refuse) {
  const auto known = {"gzip", "x-gzip", "deflate", "compress", "x-compress", "identity", "chunked", ""};
  auto rest = value;
  while (true) {
    const auto comma = rest.find(',');
    auto item = rest.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    const bool is_known =
        std::any_of(known.begin(), known.end(), [&](const char* name) { return equals_ignoring_case(item, name); });
    const bool is_token = std::all_of(item.begin(), item.end(), [](char c) { return c > ' ' && c < 0x7f && c != '"'; });
    if (!is_known && is_token) return refuse("unknown transfer coding", Errc::unknown_coding);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return refuse("Transfer-Encoding is not exactly \"chunked\"");
}

bool misplaced_in_host(char c) noexcept {
  return c == ' ' || c == '\t' || c == ',' || c == '/' || c == '@' || c == '?' || c == '#' || c == '\\';
}

Result<void> check_request_host(const Head& head, int hosts, const Refuse& refuse) {
  if (hosts > 1) return refuse("more than one Host header");
  if (hosts == 0 && head.version == 11) return refuse("missing Host header");
  const auto host = head.first(FieldName::host);
  if (std::any_of(host.begin(), host.end(), misplaced_in_host)) return refuse("malformed Host header");
  return {};
}

}  // namespace

Result<void> check_framing(Head& head, bool is_request, bool answers_head) {
  const Refuse refuse{is_request ? Source::client : Source::engine, is_request ? Retry::never : Retry::next_pod};
  if (!is_request && head.status < 100) return refuse("status below 100");
  int lengths = 0, codings = 0, hosts = 0;
  std::string_view length_text;
  for (const auto& field : head.fields) {
    if (field.id == FieldName::content_length) {
      ++lengths;
      length_text = field.value;
    } else if (field.id == FieldName::transfer_encoding) {
      ++codings;
      if (!equals_ignoring_case(field.value, "chunked") || !ends_at_line_end(field.value))
        return judge_coding(field.value, refuse);
    } else if (field.id == FieldName::host) {
      ++hosts;
    }
  }
  if (is_request) {
    if (auto verdict = check_request_host(head, hosts, refuse); !verdict) return verdict;
  }
  if (codings > 1) return refuse("more than one Transfer-Encoding header");
  if (codings == 1 && lengths > 0) return refuse("both Content-Length and Transfer-Encoding");
  if (codings == 1 && head.version == 10) return refuse("Transfer-Encoding with HTTP/1.0");
  if (lengths > 1) return refuse("more than one Content-Length header");

  head.framing = {};
  const bool bodyless =
      !is_request && (answers_head || head.status / 100 == 1 || head.status == 204 || head.status == 304);
  if (lengths == 1) {
    if (!all_digits(length_text)) return refuse("malformed Content-Length");
    std::uint64_t length = 0;
    const auto parsed = std::from_chars(length_text.data(), length_text.data() + length_text.size(), length);
    if (parsed.ec != std::errc()) return refuse("Content-Length too large");
    head.framing = {Framing::Kind::length, length};
  } else if (codings == 1) {
    head.framing = {Framing::Kind::chunked, 0};
  } else if (!is_request) {
    head.framing = {Framing::Kind::until_close, 0};
  }
  if (bodyless) head.framing = {Framing::Kind::none, 0};
  return {};
}

}  // namespace warmroute::http
