#include "proxy/body.hpp"

#include <algorithm>

#include "http/inflate.hpp"

namespace warmroute::proxy {
namespace {

using openai::ErrorKind;
using openai::Refusal;

Refusal too_large(const Exchange& exchange) {
  return {ErrorKind::body_too_large,
          "request body exceeds the limit of " + std::to_string(exchange.shared.settings.max_body_bytes) + " bytes"};
}

Refusal no_room() { return {ErrorKind::overloaded, "the router buffers too many request bodies at the moment"}; }

// What a body has to bring within the time-out, unless it ends: a byte now and then is no progress.
constexpr std::uint64_t least_progress_bytes = 256;

// What is already here. Leaves in `input` what belongs to the next request.
enum class Taken { complete, need_more, bad, too_large, no_room };

Taken take_chunked(Exchange& exchange) {
  auto& input = exchange.session.input();
  http::Pieces pieces;
  std::size_t used = 0;
  const auto state = exchange.parser.parse_body(input.view(), pieces, used);
  if (state == http::BodyState::bad) return Taken::bad;
  for (const auto piece : pieces) {
    const auto size = exchange.body.size() + piece.size();
    if (size > exchange.shared.settings.max_body_bytes) return Taken::too_large;
    exchange.body.append(piece);
    if (!exchange.budget.raise_to(exchange.body.capacity())) return Taken::no_room;
  }
  input.erase_front(used);
  // What is left is a part of a chunk header or trailer; those are short.
  if (state == http::BodyState::need_more && input.size() > 16 * 1024) return Taken::bad;
  return state == http::BodyState::complete ? Taken::complete : Taken::need_more;
}

Taken take_length(Exchange& exchange) {
  auto& input = exchange.session.input();
  const auto missing = exchange.head.framing.length - exchange.body.size();
  if (exchange.body.empty() && input.size() <= missing) {
    exchange.body = std::move(input);  // the usual case: all of it came with the head
    input.release();
  } else {
    const auto now = std::min<std::uint64_t>(missing, input.size());
    exchange.body.append(input.view().substr(0, now));
    input.erase_front(now);
    if (input.empty()) input.release();
  }
  if (!exchange.budget.raise_to(exchange.body.capacity())) return Taken::no_room;
  return exchange.body.size() == exchange.head.framing.length ? Taken::complete : Taken::need_more;
}

// Reads once; straight into the body where its length is known.
net::Task<net::IoResult> read_more(Exchange& exchange,
                                   bool chunked) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& session = exchange.session;
  for (;;) {
    std::span<char> room = session.context().worker.scratch();
    if (!chunked && exchange.body.size() >= room.size() / 4) {
      // Memory follows what has arrived, not what was announced.
      const auto missing = exchange.head.framing.length - exchange.body.size();
      if (exchange.body.capacity() == exchange.body.size())
        exchange.body.reserve(exchange.body.size() + std::min<std::uint64_t>(missing, exchange.body.size()));
      room = {exchange.body.room(), std::min<std::size_t>({exchange.body.capacity() - exchange.body.size(), missing,
                                                           net::Worker::step_bytes})};
      const auto got = session.client().try_read(room);
      if (got.status == net::Io::ok) exchange.body.commit(got.bytes);
      if (got.status != net::Io::would_block && got.status != net::Io::would_block_write) co_return got;
      if (const auto ec = got.status == net::Io::would_block ? co_await session.client().wait_readable()
                                                             : co_await session.client().wait_writable())
        co_return net::IoResult{net::Io::error, 0, ec};
    } else {
      const auto got = session.client().try_read(room);
      if (got.status == net::Io::ok) session.input().append({room.data(), got.bytes});
      if (got.status != net::Io::would_block && got.status != net::Io::would_block_write) co_return got;
      if (const auto ec = got.status == net::Io::would_block ? co_await session.client().wait_readable()
                                                             : co_await session.client().wait_writable())
        co_return net::IoResult{net::Io::error, 0, ec};
    }
    if (session.client_late()) co_return net::IoResult{net::Io::error, 0, boost::asio::error::timed_out};
  }
}

Taken take(Exchange& exchange) {
  return exchange.head.framing.kind == http::Framing::Kind::chunked ? take_chunked(exchange) : take_length(exchange);
}

// Reads until there is nothing more to take.
net::Task<std::optional<Refusal>> receive(
    Exchange& exchange, Taken taken) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  const bool chunked = exchange.head.framing.kind == http::Framing::Kind::chunked;
  auto& session = exchange.session;
  const auto timeout = exchange.shared.settings.client_body_timeout;
  session.reset_client_late();
  std::uint64_t received = 0, counted = 0;
  bool waits = false;
  struct ClearDeadline {
    net::Deadline& deadline;
    ~ClearDeadline() { deadline.clear(); }
  } const clear{session.client_deadline()};
  for (;; taken = take(exchange)) {
    switch (taken) {
      case Taken::complete:
        co_return std::nullopt;
      case Taken::bad:
        co_return Refusal{ErrorKind::bad_framing, "malformed chunked request body"};
      case Taken::too_large:
        co_return too_large(exchange);
      case Taken::no_room:
        co_return no_room();
      case Taken::need_more:
        break;
    }
    if (!waits || received - counted >= least_progress_bytes) {
      session.client_deadline().set_after(timeout);
      counted = received;
      waits = true;
    }
    const auto got = co_await read_more(exchange, chunked);
    received += got.bytes;
    if (got.status == net::Io::ok) continue;
    if (got.ec == boost::asio::error::timed_out)
      co_return Refusal{ErrorKind::body_timeout, "request body made no progress in time"};
    co_return Refusal{ErrorKind::body_interrupted, "unexpected EOF: the request body ended after " +
                                                       std::to_string(exchange.body.size()) + " bytes"};
  }
}

// In small pieces: each may become a thousand times as much.
net::Task<http::InflateResult> gunzip(
    Exchange& exchange) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  constexpr std::size_t piece_bytes = 2048;
  auto& decoded = exchange.decoded;
  http::GzipDecoder decoder(exchange.shared.settings.max_body_bytes);
  std::size_t since = 0;  // of `decoded`, when others had their turn
  for (auto rest = exchange.body.view(); !rest.empty(); rest.remove_prefix(std::min(piece_bytes, rest.size()))) {
    const auto result = decoder.feed(rest.substr(0, piece_bytes), decoded);
    if (result != http::InflateResult::ok) co_return result;
    if (decoded.size() - since < net::Worker::step_bytes) continue;
    since = decoded.size();
    co_await exchange.session.context().worker.give_way();
  }
  decoded.reserve(decoded.size() + openai::body_padding);
  co_return decoder.finish();
}

net::Task<std::optional<Refusal>> decode_gzip(
    Exchange& exchange) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  if (exchange.shared.settings.compat) co_return std::nullopt;  // Go reads the bytes as they are, and fails on them
  const auto coding = exchange.head.first(http::FieldName::content_encoding);
  const auto& fields = exchange.head.fields;
  if (std::count_if(fields.begin(), fields.end(),
                    [](const http::Field& field) { return field.id == http::FieldName::content_encoding; }) > 1)
    co_return Refusal{ErrorKind::unsupported_encoding, "more than one Content-Encoding header"};
  if (coding.empty() || http::equals_ignoring_case(coding, "identity")) co_return std::nullopt;
  if (!http::equals_ignoring_case(coding, "gzip") && !http::equals_ignoring_case(coding, "x-gzip"))
    co_return Refusal{ErrorKind::unsupported_encoding, "Content-Encoding \"" + std::string(coding.substr(0, 64)) +
                                                           "\" is not supported; send gzip or none"};
  if (exchange.body.empty()) co_return std::nullopt;
  exchange.gzip = true;
  const auto verdict = co_await gunzip(exchange);
  if (verdict == http::InflateResult::too_large) co_return too_large(exchange);
  if (verdict != http::InflateResult::ok) co_return Refusal{ErrorKind::bad_json, "request body is not valid gzip"};
  if (!exchange.budget.raise_to(exchange.body.capacity() + exchange.decoded.capacity())) co_return no_room();
  co_return std::nullopt;
}

}  // namespace

net::Task<std::optional<openai::Refusal>> read_body(
    Exchange& exchange) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  const auto& framing = exchange.head.framing;
  if (framing.kind == http::Framing::Kind::none || (framing.kind == http::Framing::Kind::length && framing.length == 0))
    co_return std::nullopt;
  exchange.body_unread = true;  // until it was read
  if (framing.kind == http::Framing::Kind::length && framing.length > exchange.shared.settings.max_body_bytes)
    co_return too_large(exchange);
  const auto expect = exchange.head.first(http::FieldName::expect);
  if (http::equals_ignoring_case(expect, "100-continue") && exchange.head.version == 11 &&
      exchange.session.input().empty()) {
    if (!co_await exchange.session.write_all("HTTP/1.1 100 Continue\r\n\r\n"))
      co_return Refusal{ErrorKind::body_interrupted, "client closed the connection"};
  }
  if (const auto taken = take(exchange); taken != Taken::complete) {
    if (auto refusal = co_await receive(exchange, taken)) co_return refusal;
  }
  exchange.body_unread = false;
  if (!exchange.head.first(http::FieldName::content_encoding).empty()) {
    if (auto refusal = co_await decode_gzip(exchange)) co_return refusal;
  }
  if (exchange.readable_body().size() > net::Worker::step_bytes)
    co_await exchange.session.context().worker.give_way();  // what read it was a step of its own
  co_return std::nullopt;
}

}  // namespace warmroute::proxy
