#include "proxy/engine_call.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

namespace warmroute::proxy {
namespace {

using net::Io;

constexpr std::size_t engine_head_limit_bytes = 64 * 1024;

// The first pieces that may go out in one step. A body may be one large piece: then `part` is the beginning of it.
std::span<iovec> one_step(std::span<iovec> pieces, iovec& part) {
  std::size_t bytes = 0, count = 0;
  while (count < pieces.size() && bytes + pieces[count].iov_len <= net::Worker::step_bytes)
    bytes += pieces[count++].iov_len;
  if (count > 0 || pieces.empty()) return pieces.first(count);
  part = {pieces.front().iov_base, net::Worker::step_bytes};
  return {&part, 1};
}

}  // namespace

EngineCall::EngineCall(Exchange& exchange, const model::ServerEntry& server, const model::PodEntry& pod)
    : exchange_(exchange),
      server_(server),
      pod_(pod),
      deadline_(
          exchange.session.context().worker.deadlines(),
          [](void* self) {
            static_cast<EngineCall*>(self)->late_ = true;
            static_cast<EngineCall*>(self)->wake();
          },
          this) {}

void EngineCall::wake() {
  switch (phase_) {
    case Phase::connecting:
      if (connecting_) {
        net::error_code ignored;
        connecting_->cancel(ignored);
      }
      return;
    case Phase::sending:
      if (engine_) engine_->close();
      return;
    case Phase::waiting:
      if (engine_) engine_->interrupt();
      return;
  }
}

// A limit cut down to what the total time-out leaves.
std::chrono::milliseconds EngineCall::limited(std::chrono::milliseconds limit) const {
  return std::min(limit, exchange_.time_left());
}

bool EngineCall::out_of_total_time() const { return late_ && exchange_.time_left().count() == 0; }

Error EngineCall::failure(Errc code, std::string why, bool nothing_came) const {
  const bool stale = reused_ && nothing_came && !late_ && !gone();
  return Error{code, Source::engine, stale ? Retry::fresh_connection : Retry::next_pod, std::move(why)};
}

net::Task<std::optional<Error>> EngineCall::connect() {
  phase_ = Phase::connecting;
  auto& io = exchange_.session.context().worker.io();
  net::error_code ec;
  const auto address = boost::asio::ip::make_address(pod_.record->ip(), ec);
  if (ec) co_return failure(Errc::refused, "bad pod address", true);
  connecting_ = std::make_unique<net::Socket>(io);
  const auto& settings = exchange_.shared.settings;
  const auto header_limit = server_.spec.timeout.value_or(settings.response_header_timeout);
  deadline_.set_after(limited(std::min(settings.connect_timeout, header_limit)));
  auto [connect_ec] = co_await connecting_->async_connect({address, pod_.port}, net::as_result);
  auto socket = std::move(connecting_);
  if (gone()) co_return failure(Errc::cancelled, "nobody waits for the answer any more", true);
  if (late_) co_return failure(Errc::timeout, "connect timed out", true);
  // Out of descriptors, ports or memory on this side: the pod has no part in it.
  if (connect_ec == boost::asio::error::no_descriptors || connect_ec == boost::asio::error::no_buffer_space ||
      connect_ec == boost::asio::error::no_memory || connect_ec == boost::system::errc::address_not_available)
    co_return Error{Errc::refused, Source::internal, Retry::next_pod, connect_ec.message()};
  if (connect_ec) {
    if (exchange_.shared.connect_failed) exchange_.shared.connect_failed(pod_.record->id());
    co_return failure(Errc::refused, connect_ec.message(), true);
  }
  exchange_.shared.counters.connects->inc();
  socket->set_option(boost::asio::ip::tcp::no_delay(true), ec);
  net::SslPtr tls;
  if (server_.spec.https) tls = exchange_.shared.client_tls->session(socket->native_handle(), pod_.record->host());
  if (server_.spec.https && !tls) co_return failure(Errc::tls, "no TLS session", true);
  engine_ = std::make_unique<net::Connection>(std::move(*socket), std::move(tls));
  if (engine_->is_tls()) {  // under the connect time-out: the handshake is part of connecting
    phase_ = Phase::sending;
    if (auto error = co_await handshake()) co_return error;
  }
  deadline_.set_after(limited(header_limit));
  co_return std::nullopt;
}

net::Task<std::optional<Error>> EngineCall::handshake() {
  for (;;) {
    const auto step = engine_->try_handshake();
    if (step.status == Io::ok) co_return std::nullopt;
    net::error_code ec = step.ec;
    if (step.status == Io::would_block) ec = co_await engine_->wait_readable();
    if (step.status == Io::would_block_write) ec = co_await engine_->wait_writable();
    if (gone()) co_return failure(Errc::cancelled, "nobody waits for the answer any more", true);
    if (late_) co_return failure(Errc::timeout, "TLS handshake timed out", true);
    if (ec || step.status == Io::error || step.status == Io::eof)
      co_return failure(Errc::tls, "TLS handshake failed: " + engine_->tls_failure(), true);
  }
}

net::Task<std::optional<Error>> EngineCall::send(
    const Outgoing& outgoing) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  phase_ = Phase::sending;
  cut_short_ = false;
  std::vector<iovec> pieces;
  pieces.reserve(outgoing.body.size() + 1);
  pieces.push_back({const_cast<char*>(outgoing.head.data()), outgoing.head.size()});
  for (const auto piece : outgoing.body) pieces.push_back({const_cast<char*>(piece.data()), piece.size()});
  std::span<iovec> rest = pieces;
  while (!rest.empty()) {
    iovec part{};
    const auto wrote = engine_->try_write(one_step(rest, part));
    rest = net::behind(rest, wrote.bytes);
    if (wrote.status == Io::ok && rest.empty()) break;
    net::error_code ec = wrote.ec;
    if (wrote.status == Io::ok) co_await exchange_.session.context().worker.give_way();
    if (wrote.status == Io::would_block) ec = co_await wait_for_room();
    if (wrote.status == Io::would_block_read) ec = co_await engine_->wait_readable();
    if (gone()) co_return failure(Errc::cancelled, "nobody waits for the answer any more", true);
    if (late_) co_return failure(Errc::timeout, "time-out while the request was sent", true);
    if (cut_short_) break;
    if (wrote.status == Io::ok) continue;
    // An engine may answer and close before it has read everything: its answer counts, if there is one.
    if (ec || wrote.status == Io::error || wrote.status == Io::eof) {
      cut_short_ = true;
      if (engine_->is_open() && !reused_) break;
      co_return failure(Errc::reset, "connection lost while the request was sent", true);
    }
  }
  co_return std::nullopt;
}

// For the rest of a large request. An engine may refuse it unread and keep the connection open: its answer ends the
// wait.
net::Task<net::error_code> EngineCall::wait_for_room() {
  // Over TLS readable bytes may be no answer at all; there the refusal is read once the engine closes.
  if (!engine_->is_tls()) engine_->watch([](void* self) { static_cast<EngineCall*>(self)->on_early_bytes(); }, this);
  const auto ec = co_await engine_->wait_writable();
  if (engine_) engine_->unwatch();
  co_return ec;
}

void EngineCall::on_early_bytes() {
  std::array<char, 10> start;  // as far as the first digit of the status
  const auto seen = engine_->peek(start);
  // Interim and good answers are no reason to stop: the engine goes on reading.
  if (seen.status == Io::ok && (seen.bytes < start.size() || start.back() < '3')) return;
  if (seen.status == Io::would_block) return;
  cut_short_ = true;
  net::error_code ignored;
  engine_->socket().cancel(ignored);
}

// Waits until there is something to read, the deadline passed or the client left.
net::Task<net::IoResult> EngineCall::read() {
  phase_ = Phase::waiting;
  for (;;) {
    if (gone() || late_) co_return net::IoResult{Io::error, 0, boost::asio::error::operation_aborted};
    const auto ec = co_await engine_->wait_readable();
    if (gone() || late_ || ec) co_return net::IoResult{Io::error, 0, boost::asio::error::operation_aborted};
    const auto got = engine_->try_read(exchange_.session.context().worker.scratch());
    if (got.status == Io::would_block) continue;
    if (got.status == Io::would_block_write) {
      phase_ = Phase::sending;
      const auto write_ec = co_await engine_->wait_writable();
      phase_ = Phase::waiting;
      if (write_ec) co_return net::IoResult{Io::error, 0, write_ec};
      continue;
    }
    co_return got;
  }
}

net::Task<std::optional<Error>> EngineCall::receive_head() {
  auto& input = answer.input;
  http::HeadEnd end;
  bool nothing_came = true;
  for (;;) {
    const auto state = input.empty() ? http::HeadEnd::State::need_more : end.feed(input.view());
    if (state == http::HeadEnd::State::bad_framing)
      co_return failure(Errc::bad_framing, "malformed response head", false);
    if (state == http::HeadEnd::State::found) {
      answer.bytes.truncate(0);
      answer.bytes.append(input.view().substr(0, end.size()));
      input.erase_front(end.size());
      auto parsed = answer.parser.parse_head(answer.bytes.view(), answer.head, exchange_.head.method == "HEAD");
      if (!parsed) co_return parsed.error();
      if (answer.head.status == 101) co_return failure(Errc::bad_framing, "engine switched protocols", false);
      if (answer.head.status / 100 != 1) co_return std::nullopt;
      end.reset();  // 100, 103 and the like: the client gets one final answer
      continue;
    }
    if (input.size() > engine_head_limit_bytes) co_return failure(Errc::bad_framing, "response head too large", false);
    const auto got = co_await read();
    if (gone()) co_return failure(Errc::cancelled, "nobody waits for the answer any more", nothing_came);
    if (late_) co_return failure(Errc::timeout, "no response head in time", nothing_came);
    if (got.status == Io::eof)
      co_return failure(Errc::closed, "connection closed before the response head", nothing_came);
    if (got.status != Io::ok) co_return failure(Errc::reset, "connection lost before the response head", nothing_came);
    nothing_came = false;
    input.append({exchange_.session.context().worker.scratch().data(), got.bytes});
  }
}

// Lease or connect, send, receive the head; once more on a fresh connection when a pooled one was closed already.
net::Task<std::optional<Error>> EngineCall::exchange_heads(
    const Outgoing& outgoing) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& context = exchange_.session.context();
  const upstream::EngineKey key{pod_.record->id(), pod_.port};
  engine_ = context.pool.take(key);
  reused_ = engine_ != nullptr;
  const auto& settings = exchange_.shared.settings;
  if (reused_) deadline_.set_after(limited(server_.spec.timeout.value_or(settings.response_header_timeout)));
  for (;;) {
    std::optional<Error> error;
    if (!engine_) error = co_await connect();
    if (!error) error = co_await send(outgoing);
    if (!error) error = co_await receive_head();
    if (!error || error->retry != Retry::fresh_connection) co_return error;
    context.shared.counters.fresh_connection_retries->inc();
    engine_.reset();
    answer = {};
    reused_ = false;
  }
}

void EngineCall::give_back() {
  if (!engine_ || cut_short_ || !answer.head.keep_alive || !answer.input.empty() ||
      answer.head.framing.kind == http::Framing::Kind::until_close)
    return;
  if (pod_.record->left() || exchange_.shared.closing.load(std::memory_order_relaxed)) return;
  exchange_.session.context().pool.give({pod_.record->id(), pod_.port}, std::move(engine_));
}

}  // namespace warmroute::proxy
