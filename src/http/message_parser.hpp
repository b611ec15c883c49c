#pragma once
// Beast's parser fed by put(): bytes in, head and body pieces out. No I/O, so every split can be tested.
// A parser is good for one message. Heads are handed over whole (see find_head_end), so the views of `Head` point
// into the caller's buffer, which must stay where it is.

#include <boost/beast/http/basic_parser.hpp>
#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "http/head.hpp"
#include "warmroute/result.hpp"

namespace warmroute::http {

/// Looks for the end of a head in bytes that arrive bit by bit, and for what Beast would let through but a strict
/// reader must not: bare LF and folded lines.
class HeadEnd {
 public:
  enum class State : std::uint8_t { need_more, found, bad_framing };
  /// `data` is everything received so far; only new bytes are looked at.
  State feed(std::string_view data) noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return scanned_; }  ///< of the head, once found
  void reset() noexcept { *this = HeadEnd(); }

 private:
  std::size_t scanned_ = 0, line_start_ = 0;
  bool in_fields_ = false;
};

/// Body bytes of one put(): views into the input.
using Pieces = std::vector<std::string_view>;

namespace detail {
template <bool IsRequest>
class BeastParser;
}

enum class BodyState : std::uint8_t { need_more, complete, bad };

template <bool IsRequest>
class MessageParser {
 public:
  MessageParser();
  ~MessageParser();
  MessageParser(MessageParser&&) noexcept;
  MessageParser& operator=(MessageParser&&) noexcept;

  /// \param head exactly one complete head (HeadEnd::size() bytes). Fills `out`, framing included.
  /// \param answers_head the request was HEAD, so the response has no body whatever it says.
  Result<void> parse_head(std::string_view head, Head& out, bool answers_head = false);

  /// Takes body bytes, appends the payload (without chunk framing) to `pieces`, and says how many input bytes were
  /// used. What was not used (part of a chunk header) must be presented again in front of the next bytes.
  /// Trailers and chunk extensions are dropped.
  BodyState parse_body(std::string_view data, Pieces& pieces, std::size_t& used);
  /// The peer closed: whether the body was complete then.
  [[nodiscard]] bool complete_at_eof();
  [[nodiscard]] bool complete() const noexcept;

 private:
  std::unique_ptr<detail::BeastParser<IsRequest>> parser_;  ///< null until there is a head
};

using RequestParser = MessageParser<true>;
using ResponseParser = MessageParser<false>;

}  // namespace warmroute::http
