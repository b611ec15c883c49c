#include "kube/api_connection.hpp"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <span>
#include <utility>
#include <vector>

#include "http/message_parser.hpp"

namespace warmroute::kube {
namespace {

namespace asio = boost::asio;
using net::Io;
using Endpoints = std::vector<asio::ip::tcp::endpoint>;

constexpr std::size_t head_limit_bytes = 64U << 10U;
constexpr std::size_t read_bytes = 32U << 10U;
constexpr int interim_limit = 4;
constexpr std::chrono::seconds address_time{3};
/// A peer that vanished (its node died) is noticed after this, also while nothing is sent.
constexpr int keepalive_idle_s = 15, keepalive_interval_s = 5, keepalive_count = 3;
constexpr unsigned unacknowledged_ms = 30'000;

Error failed(Errc code, std::string detail) { return Error{code, Source::internal, Retry::never, std::move(detail)}; }

Error from_code(const net::error_code& code, std::string_view step) {
  Errc kind = Errc::io;
  if (code == asio::error::operation_aborted || code == asio::error::bad_descriptor) kind = Errc::cancelled;
  if (code == asio::error::connection_refused) kind = Errc::refused;
  if (code == asio::error::eof) kind = Errc::closed;
  if (code == asio::error::connection_reset || code == asio::error::broken_pipe) kind = Errc::reset;
  return failed(kind, std::string(step) + ": " + code.message());
}

void set_int(net::Socket& socket, int level, int option, int value) {
  (void)::setsockopt(socket.native_handle(), level, option, &value, sizeof value);  // without it, only slower to notice
}

void keep_alive(net::Socket& socket) {
  set_int(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_int(socket, IPPROTO_TCP, TCP_KEEPIDLE, keepalive_idle_s);
  set_int(socket, IPPROTO_TCP, TCP_KEEPINTVL, keepalive_interval_s);
  set_int(socket, IPPROTO_TCP, TCP_KEEPCNT, keepalive_count);
  set_int(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(unacknowledged_ms));
}

/// Of Retry-After. Zero asks for nothing, more than a day for nonsense: neither counts.
std::optional<std::chrono::seconds> seconds_of(std::string_view text) {
  unsigned value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  if (value == 0 || value >= 86400) return std::nullopt;
  return std::chrono::seconds(value);
}

}  // namespace

struct ApiConnection::Impl {
  explicit Impl(net::io_context& control)
      : io(control), deadline(control.get_executor()), wake(control.get_executor()), socket(control.get_executor()) {}

  net::io_context& io;
  net::Timer deadline, wake;
  net::Clock::time_point due = net::Clock::time_point::max();
  net::Socket socket;  ///< while it connects
  std::unique_ptr<net::Connection> connection;
  http::ResponseParser parser;
  http::Head head;
  std::string head_text;  ///< what the views of `head` point to
  std::string input;      ///< received, not consumed
  std::string buffer;
  bool timed_out = false, cancelled = false;
  bool got_bytes = false, ended = false;  ///< of the answer under way; the peer's end
  bool body_open = false, keep = true;    ///< between head and the body's end; the connection may carry another

  void close() {
    net::error_code ignored;
    (void)socket.close(ignored);
    if (connection) connection->close();
    wake.cancel();
  }
  [[nodiscard]] Error reason(Error error) const {
    if (timed_out) return failed(Errc::timeout, "no answer in time");
    if (cancelled) return failed(Errc::cancelled, "cancelled");
    return error;
  }
  [[nodiscard]] bool over() const { return timed_out || cancelled; }

  static net::Task<Result<Endpoints>> resolve(std::shared_ptr<Impl> self, std::string host, std::uint16_t port);
  static net::Task<Result<void>> open(std::shared_ptr<Impl> self, Target target);
  static net::Task<Result<void>> handshake(std::shared_ptr<Impl> self);
  static net::Task<Result<void>> send(std::shared_ptr<Impl> self, std::string text);
  static net::Task<Result<void>> receive(std::shared_ptr<Impl> self);
  static net::Task<Result<AnswerHead>> read_head(std::shared_ptr<Impl> self);
  static net::Task<Result<bool>> read_body(std::shared_ptr<Impl> self, std::string& out);
  static void arm(const std::shared_ptr<Impl>& self);
  static void give_up_connecting(const std::shared_ptr<Impl>& self);
};

void ApiConnection::Impl::arm(const std::shared_ptr<Impl>& self) {
  self->deadline.expires_at(self->due);
  self->deadline.async_wait([self](const net::error_code& ec) {
    // An expiry that was already queued when the deadline moved does not count.
    if (ec || net::Clock::now() < self->due) return;
    self->timed_out = true;
    self->close();
  });
}

/// A look-up cannot be ended, only left alone: its handler holds what it needs.
net::Task<Result<Endpoints>> ApiConnection::Impl::resolve(std::shared_ptr<Impl> self, std::string host,
                                                          std::uint16_t port) {
  net::error_code code;
  const auto address = asio::ip::make_address(host, code);
  if (!code) co_return Endpoints{{address, port}};
  struct Lookup {
    explicit Lookup(net::io_context& io) : resolver(io) {}
    net::Resolver resolver;
    bool done = false;
    net::error_code code;
    Endpoints found;
  };
  auto lookup = std::make_shared<Lookup>(self->io);
  lookup->resolver.async_resolve(host, std::to_string(port), net::Resolver::flags(),
                                 [lookup, self](const net::error_code& ec, const net::Resolver::results_type& results) {
                                   lookup->done = true;
                                   lookup->code = ec;
                                   for (const auto& result : results) lookup->found.push_back(result.endpoint());
                                   self->wake.cancel();
                                 });
  while (!lookup->done && !self->over()) {
    self->wake.expires_at(net::Clock::time_point::max());
    (void)co_await self->wake.async_wait(net::as_result);
  }
  if (!lookup->done) co_return self->reason(failed(Errc::timeout, "look-up of " + host));
  if (lookup->code) co_return failed(Errc::io, "look-up of " + host + ": " + lookup->code.message());
  co_return std::move(lookup->found);
}

/// An address that says nothing must not use up the time of those behind it.
void ApiConnection::Impl::give_up_connecting(const std::shared_ptr<Impl>& self) {
  self->wake.expires_after(address_time);
  self->wake.async_wait([self](const net::error_code& ec) {
    net::error_code ignored;
    if (!ec && !self->connection) (void)self->socket.close(ignored);
  });
}

net::Task<Result<void>> ApiConnection::Impl::open(std::shared_ptr<Impl> self, Target target) {
  auto endpoints = co_await resolve(self, target.host, target.port);
  if (!endpoints) co_return endpoints.error();
  Error last = failed(Errc::io, target.host + " has no address");
  for (const auto& endpoint : *endpoints) {
    net::error_code code;
    net::Socket socket(self->io.get_executor());
    self->socket = std::move(socket);
    self->socket.open(endpoint.protocol(), code);
    if (!code) self->socket.set_option(asio::ip::tcp::no_delay(true), code);
    if (code) {
      last = from_code(code, "socket");
      continue;
    }
    if (endpoint != endpoints->back()) give_up_connecting(self);
    auto [connect_code] = co_await self->socket.async_connect(endpoint, net::as_result);
    self->wake.cancel();
    if (self->over()) co_return self->reason(from_code(connect_code, "connect"));
    if (connect_code) {
      last = from_code(connect_code, "connect to " + endpoint.address().to_string());
      continue;
    }
    keep_alive(self->socket);
    self->connection = std::make_unique<net::Connection>(std::move(self->socket));
    if (!target.tls) co_return Result<void>();
    auto session = target.tls->session(self->connection->socket().native_handle(), target.tls_name);
    if (!session) co_return failed(Errc::tls, "TLS: no session can be made for " + target.tls_name);
    self->connection->start_tls(std::move(session));
    co_return co_await handshake(self);
  }
  co_return last;
}

net::Task<Result<void>> ApiConnection::Impl::handshake(std::shared_ptr<Impl> self) {
  for (;;) {
    const auto step = self->connection->try_handshake();
    if (step.status == Io::ok) co_return Result<void>();
    if (step.status == Io::would_block) {
      if (co_await self->connection->wait_readable())
        co_return self->reason(failed(Errc::closed, "TLS: connection closed"));
    } else if (step.status == Io::would_block_write) {
      if (co_await self->connection->wait_writable())
        co_return self->reason(failed(Errc::closed, "TLS: connection closed"));
    } else {
      if (self->over()) co_return self->reason(failed(Errc::tls, ""));
      const bool cut = step.status == Io::eof || step.ec == asio::error::connection_reset;
      co_return failed(cut ? Errc::closed : Errc::tls,
                       cut ? "TLS: connection closed" : "TLS: " + self->connection->tls_failure());
    }
  }
}

net::Task<Result<void>> ApiConnection::Impl::send(std::shared_ptr<Impl> self, std::string text) {
  std::size_t at = 0;
  self->got_bytes = self->ended = false;
  while (at < text.size()) {
    const iovec piece{text.data() + at, text.size() - at};
    const auto wrote = self->connection->try_write({&piece, 1});
    bool closed = false;
    switch (wrote.status) {
      case Io::ok:
        at += wrote.bytes;
        break;
      case Io::would_block:
        closed = static_cast<bool>(co_await self->connection->wait_writable());
        break;
      case Io::would_block_read:
        closed = static_cast<bool>(co_await self->connection->wait_readable());
        break;
      default:
        self->ended = true;
        co_return self->reason(failed(Errc::reset, "send: " + wrote.ec.message()));
    }
    if (closed) co_return self->reason(failed(Errc::closed, "send: connection closed"));
  }
  co_return Result<void>();
}

/// More bytes behind `input`. Errc::closed: the peer's end.
net::Task<Result<void>> ApiConnection::Impl::receive(std::shared_ptr<Impl> self) {
  for (;;) {
    self->buffer.resize(read_bytes);
    const auto got = self->connection->try_read(self->buffer);
    if (got.status == Io::ok) {
      self->input.append(self->buffer, 0, got.bytes);
      self->got_bytes = true;
      co_return Result<void>();
    }
    if (got.status == Io::would_block) {
      self->buffer = std::string();  // a stream waits for minutes
      if (co_await self->connection->wait_readable()) co_return self->reason(failed(Errc::closed, "connection closed"));
    } else if (got.status == Io::would_block_write) {
      if (co_await self->connection->wait_writable()) co_return self->reason(failed(Errc::closed, "connection closed"));
    } else {
      self->ended = true;
      if (got.status == Io::eof) co_return self->reason(failed(Errc::closed, "closed by the API server"));
      co_return self->reason(from_code(got.ec, "receive"));
    }
  }
}

net::Task<Result<AnswerHead>> ApiConnection::Impl::read_head(std::shared_ptr<Impl> self) {
  for (int interim = 0; interim <= interim_limit; ++interim) {
    http::HeadEnd end;
    auto state = end.feed(self->input);
    while (state == http::HeadEnd::State::need_more) {
      if (self->input.size() > head_limit_bytes) co_return failed(Errc::head_too_large, "answer: head over the limit");
      auto more = co_await receive(self);
      if (!more) co_return more.error();
      state = end.feed(self->input);
    }
    if (state == http::HeadEnd::State::bad_framing) co_return failed(Errc::bad_framing, "answer: no HTTP/1.1 head");
    self->head_text = self->input.substr(0, end.size());
    self->input.erase(0, end.size());
    auto parsed = self->parser.parse_head(self->head_text, self->head);
    if (!parsed) co_return failed(parsed.error().code, "answer: " + parsed.error().detail);
    if (self->head.status / 100 == 1 && self->head.status != 101) continue;
    AnswerHead answer;
    answer.status = self->head.status;
    answer.retry_after = seconds_of(self->head.first(http::FieldName::retry_after));
    const auto coding = self->head.first(http::FieldName::content_encoding);
    answer.gzip = !coding.empty() && !http::equals_ignoring_case(coding, "identity");
    self->keep = self->head.keep_alive;
    self->body_open = !self->parser.complete();
    co_return answer;
  }
  co_return failed(Errc::bad_framing, "answer: too many interim answers");
}

net::Task<Result<bool>> ApiConnection::Impl::read_body(std::shared_ptr<Impl> self, std::string& out) {
  for (;;) {
    if (!self->body_open) co_return false;
    http::Pieces pieces;
    std::size_t used = 0;
    const auto state = self->parser.parse_body(self->input, pieces, used);
    bool any = false;
    for (const auto piece : pieces) {
      out.append(piece);
      any = any || !piece.empty();
    }
    self->input.erase(0, used);
    if (state == http::BodyState::bad) co_return failed(Errc::bad_framing, "answer: broken body");
    if (state == http::BodyState::complete) self->body_open = false;
    if (any) co_return true;
    if (!self->body_open) co_return false;
    auto more = co_await receive(self);
    if (more) continue;
    if (more.error().code == Errc::closed && !self->over() && self->parser.complete_at_eof()) {
      self->body_open = self->keep = false;
      co_return false;
    }
    co_return more.error();
  }
}

ApiConnection::ApiConnection(net::io_context& io) : impl_(std::make_shared<Impl>(io)) {}

ApiConnection::~ApiConnection() { close(); }

void ApiConnection::set_deadline(net::Clock::time_point at) {
  impl_->due = at;
  if (at == net::Clock::time_point::max()) {
    impl_->deadline.cancel();
  } else {
    Impl::arm(impl_);
  }
}

net::Task<Result<void>> ApiConnection::open(Target target) { return Impl::open(impl_, std::move(target)); }
net::Task<Result<void>> ApiConnection::send(std::string text) { return Impl::send(impl_, std::move(text)); }
net::Task<Result<AnswerHead>> ApiConnection::read_head() { return Impl::read_head(impl_); }
net::Task<Result<bool>> ApiConnection::read_body(std::string& out) { return Impl::read_body(impl_, out); }

bool ApiConnection::reusable() {
  return impl_->connection && impl_->connection->is_open() && impl_->keep && !impl_->body_open &&
         impl_->input.empty() && impl_->connection->peek().status == Io::would_block;
}

bool ApiConnection::closed_while_idle() const { return impl_->ended && !impl_->got_bytes && !impl_->over(); }

void ApiConnection::close() {
  impl_->cancelled = true;
  impl_->due = net::Clock::time_point::max();
  impl_->deadline.cancel();
  impl_->close();
}

}  // namespace warmroute::kube
