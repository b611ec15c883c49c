// A chunked body against a small strict decoder: what the parser takes, the decoder takes, with the same payload and
// the same end; and the payload does not depend on how the bytes are split.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/message_parser.hpp"

namespace {

using namespace warmroute;

void require(bool holds) {
  if (!holds) std::abort();
}

struct Body {
  http::BodyState state = http::BodyState::need_more;
  std::string payload;
  std::size_t used = 0;
};

template <bool IsRequest>
Body read_body(std::string_view input, std::string_view head_text, std::size_t step) {
  http::MessageParser<IsRequest> parser;
  http::Head head;
  require(parser.parse_head(head_text, head).has_value());
  Body body;
  std::string pending;
  for (std::size_t at = 0; at < input.size() && body.state == http::BodyState::need_more; at += step) {
    pending += input.substr(at, step);
    http::Pieces pieces;
    std::size_t used = 0;
    body.state = parser.parse_body(pending, pieces, used);
    require(used <= pending.size());
    for (const auto piece : pieces) body.payload += piece;
    pending.erase(0, used);
    body.used += used;
  }
  return body;
}

/// The grammar of RFC 9112, 7.1, as far as a complete body goes. False: not one, or not complete.
bool decode(std::string_view input, std::string& payload, std::size_t& used) {
  std::size_t at = 0;
  const auto line = [&](std::string_view& out) {
    const auto end = input.find("\r\n", at);
    if (end == std::string_view::npos) return false;
    out = input.substr(at, end - at);
    at = end + 2;
    return out.find('\n') == std::string_view::npos;
  };
  for (;;) {
    std::string_view text;
    if (!line(text)) return false;
    const auto digits = std::min(text.find_first_not_of("0123456789abcdefABCDEF"), text.size());
    const auto zeros = std::min(text.find_first_not_of('0'), digits);
    if (digits == 0 || digits - zeros > 16) return false;
    const auto size = std::strtoull(std::string(text.substr(zeros, digits - zeros)).c_str(), nullptr, 16);
    if (size == 0) break;
    if (size > input.size() - at) return false;
    payload += input.substr(at, size);
    at += size;
    if (input.substr(at, 2) != "\r\n") return false;
    at += 2;
  }
  for (std::string_view trailer = "x"; !trailer.empty();)
    if (!line(trailer)) return false;
  used = at;
  return true;
}

template <bool IsRequest>
void check(std::string_view input, std::string_view head) {
  const auto whole = read_body<IsRequest>(input, head, input.size() + 1);
  const auto bytewise = read_body<IsRequest>(input, head, 1);
  require(whole.state == bytewise.state);
  if (whole.state != http::BodyState::bad) require(whole.payload == bytewise.payload);
  if (whole.state != http::BodyState::complete) return;
  require(whole.used == bytewise.used);
  std::string payload;
  std::size_t used = 0;
  require(decode(input, payload, used));
  require(payload == whole.payload && used == whole.used);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  check<true>(input, "POST / HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n");
  check<false>(input, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  return 0;
}
