// Heads and bodies of both directions, in one piece and split: no crash, and the same verdict for every split.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/forward_headers.hpp"
#include "http/message_parser.hpp"

namespace {

using namespace warmroute;

struct Seen {
  bool head = false, bad = false, complete = false;
  std::string body;
};

/// What is sent on is read by the strict parser as one head with the framing that the router gave it, and names nothing
/// that belongs to one hop.
template <bool IsRequest>
void check_forwarded(const http::Head& head) {
  std::string out;
  if constexpr (IsRequest) {
    http::RequestForwarding forwarding;
    forwarding.target = head.target;
    forwarding.request_id = "id";
    forwarding.has_body = true;
    forwarding.content_length = 5;
    http::append_request_head(out, head, forwarding);
  } else {
    http::ResponseForwarding forwarding;
    forwarding.request_id = "id";
    forwarding.date = "now";
    forwarding.framing = {http::Framing::Kind::length, 5};
    http::append_response_head(out, head, forwarding);
  }
  http::HeadEnd end;
  if (end.feed(out) != http::HeadEnd::State::found || end.size() != out.size()) std::abort();
  http::MessageParser<IsRequest> parser;
  http::Head again;
  // An HTTP/1.0 request may come without Host; it is forwarded as it came.
  if (IsRequest && head.version == 10 && head.first(http::FieldName::host).empty()) return;
  if (!parser.parse_head(out, again)) std::abort();
  const bool bodyless = !IsRequest && again.framing.kind == http::Framing::Kind::none;
  if (!bodyless && (again.framing.kind != http::Framing::Kind::length || again.framing.length != 5)) std::abort();
  for (const auto& field : again.fields)
    if (field.id == http::FieldName::transfer_encoding || field.id == http::FieldName::connection ||
        field.id == http::FieldName::upgrade || field.id == http::FieldName::expect)
      std::abort();
}

template <bool IsRequest>
Seen read_message(std::string_view input, std::size_t step) {
  Seen seen;
  http::HeadEnd end;
  std::size_t given = 0;
  auto state = http::HeadEnd::State::need_more;
  while (state == http::HeadEnd::State::need_more && given < input.size()) {
    given = std::min(input.size(), given + step);
    state = end.feed(input.substr(0, given));
  }
  if (state == http::HeadEnd::State::bad_framing) {
    seen.bad = true;
    return seen;
  }
  if (state != http::HeadEnd::State::found) return seen;
  const std::string bytes(input.substr(0, end.size()));
  http::MessageParser<IsRequest> parser;
  http::Head head;
  if (!parser.parse_head(bytes, head)) {
    seen.bad = true;
    return seen;
  }
  seen.head = true;
  check_forwarded<IsRequest>(head);
  if (IsRequest && head.framing.kind == http::Framing::Kind::none) return seen;
  std::string pending;
  for (std::size_t at = end.size(); at < input.size() && !seen.complete && !seen.bad; at += step) {
    pending += input.substr(at, step);
    http::Pieces pieces;
    std::size_t used = 0;
    const auto body = parser.parse_body(pending, pieces, used);
    if (used > pending.size()) std::abort();
    for (const auto piece : pieces) seen.body += piece;
    pending.erase(0, used);
    seen.bad = body == http::BodyState::bad;
    seen.complete = body == http::BodyState::complete;
  }
  return seen;
}

template <bool IsRequest>
void check(std::string_view input) {
  const auto whole = read_message<IsRequest>(input, input.size() + 1);
  const auto bytewise = read_message<IsRequest>(input, 1);
  // A broken body may be noticed after more or fewer of its bytes; everything else must agree.
  if (whole.head != bytewise.head || whole.bad != bytewise.bad || whole.complete != bytewise.complete) std::abort();
  if (!whole.bad && whole.body != bytewise.body) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check<true>(input);
  check<false>(input);
  return 0;
}
