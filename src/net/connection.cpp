#include "net/connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "net/read_wait.hpp"

namespace warmroute::net {
namespace {

error_code system_error(int number) { return {number, boost::system::system_category()}; }

short poll_now(int descriptor, short events) noexcept {
  pollfd entry{descriptor, events, 0};
  return ::poll(&entry, 1, 0) > 0 ? entry.revents : short{0};
}

IoResult ssl_failure(ssl_st* ssl, int result, bool reading) {
  const int why = SSL_get_error(ssl, result);
  switch (why) {
    case SSL_ERROR_WANT_READ:
      return {reading ? Io::would_block : Io::would_block_read, 0, {}};
    case SSL_ERROR_WANT_WRITE:
      return {reading ? Io::would_block_write : Io::would_block, 0, {}};
    case SSL_ERROR_ZERO_RETURN:
      return {Io::eof, 0, {}};
    case SSL_ERROR_SYSCALL:
      ERR_clear_error();
      return {Io::error, 0, system_error(errno != 0 ? errno : ECONNRESET)};
    default: {
      // A peer that goes without close_notify cuts the stream; it does not break the protocol.
      const bool cut = ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
      ERR_clear_error();
      return {Io::error, 0, system_error(cut ? ECONNRESET : EPROTO)};
    }
  }
}

// What the kernel says is left behind this read; 1 for a FIN (TCP_INQ). -1 when it says nothing.
int left_behind(msghdr& message) noexcept {
  const auto* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_TCP || header->cmsg_type != TCP_CM_INQ) return -1;
  int bytes = 0;
  std::memcpy(&bytes, CMSG_DATA(header), sizeof bytes);
  return bytes;
}

}  // namespace

std::span<iovec> behind(std::span<iovec> pieces, std::size_t bytes) noexcept {
  while (!pieces.empty() && bytes >= pieces.front().iov_len) {
    bytes -= pieces.front().iov_len;
    pieces = pieces.subspan(1);
  }
  if (bytes > 0) {
    pieces.front().iov_base = static_cast<char*>(pieces.front().iov_base) + bytes;
    pieces.front().iov_len -= bytes;
  }
  return pieces;
}

// The state of the one wait for readability. It outlives the connection while the reactor still holds the handler.
struct Connection::Watch {
  using Handler = boost::asio::async_result<boost::asio::use_awaitable_t<Executor>, void(Waited)>::handler_type;

  explicit Watch(Socket& socket)
      : wait(
            socket,
            [](void* self, bool loop_goes) {
              auto& watch = *static_cast<Watch*>(self);
              // The waiting coroutine goes too: it may own the connection, and nobody else would end that circle.
              if (loop_goes) {
                watch.waiter.reset();
                return;
              }
              watch.ready = true;  // closed and failed sockets count as readable: the next try_read says what it is
              watch.fire();
            },
            this) {}

  ReadWait wait;
  bool ready = false;  // reported, not yet consumed
  bool closed = false;
  OnReadable on_readable = nullptr;
  void* owner = nullptr;
  std::optional<Handler> waiter;

  void fire() {
    if (waiter) {
      auto handler = std::move(*waiter);
      waiter.reset();
      std::move(handler)(Waited{closed});
    } else if (on_readable != nullptr) {
      on_readable(owner);
    }
  }
};

Connection::Connection(Socket socket, SslPtr ssl)
    : socket_(std::move(socket)), ssl_(std::move(ssl)), watch_(std::make_shared<Watch>(socket_)) {
  error_code ignored;
  socket_.native_non_blocking(true, ignored);
  const int on = 1;
  (void)::setsockopt(socket_.native_handle(), SOL_TCP, TCP_INQ, &on, sizeof on);  // without it, each wait re-arms
}

Connection::~Connection() {
  watch_->on_readable = nullptr;
  close();
}

IoResult Connection::try_handshake() noexcept {
  watch_->ready = false;
  if (!socket_.is_open()) return {Io::error, 0, boost::asio::error::operation_aborted};
  emptied_ = false;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  if (result == 1) return {Io::ok, 0, {}};
  return ssl_failure(ssl_.get(), result, true);
}

std::string Connection::tls_failure() const {
  const long verdict = SSL_get_verify_result(ssl_.get());
  return verdict == X509_V_OK ? "the engine does not speak TLS as expected" : X509_verify_cert_error_string(verdict);
}

IoResult Connection::try_read(std::span<char> into) noexcept {
  watch_->ready = false;
  emptied_ = false;
  if (!socket_.is_open()) return {Io::error, 0, boost::asio::error::operation_aborted};
  if (ssl_) {
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    if (result == 1) return {Io::ok, got, {}};
    return ssl_failure(ssl_.get(), result, true);
  }
  iovec piece{into.data(), into.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control;
  for (;;) {
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const auto got = ::recvmsg(socket_.native_handle(), &message, 0);
    if (got > 0) {
      emptied_ = left_behind(message) == 0;
      return {Io::ok, static_cast<std::size_t>(got), {}};
    }
    if (got == 0) return {Io::eof, 0, {}};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      emptied_ = true;
      return {Io::would_block, 0, {}};
    }
    return {Io::error, 0, system_error(errno)};
  }
}

IoResult Connection::try_write(std::span<const iovec> pieces) noexcept {
  if (!socket_.is_open()) return {Io::error, 0, boost::asio::error::operation_aborted};
  if (ssl_) {
    std::size_t total = 0;
    for (const auto& piece : pieces) {
      if (piece.iov_len == 0) continue;
      ERR_clear_error();
      std::size_t wrote = 0;
      const int result = SSL_write_ex(ssl_.get(), piece.iov_base, piece.iov_len, &wrote);
      if (result != 1) {
        if (total > 0) break;  // report progress first; the next call meets the same obstacle
        return ssl_failure(ssl_.get(), result, false);
      }
      total += wrote;
      if (wrote < piece.iov_len) break;
    }
    return {Io::ok, total, {}};
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = std::min<std::size_t>(pieces.size(), 64);
  for (;;) {
    const auto wrote = ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL);
    if (wrote >= 0) return {Io::ok, static_cast<std::size_t>(wrote), {}};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {Io::would_block, 0, {}};
    return {Io::error, 0, system_error(errno)};
  }
}

void Connection::arm() { watch_->wait.start(socket_, emptied_, watch_); }

namespace {

Task<Waited> at_once(Waited result) { co_return result; }

}  // namespace

// Not a coroutine itself: one frame less for each wait.
Task<Waited> Connection::wait_readable() {
  if (watch_->closed) return at_once({true});
  if (watch_->ready || (ssl_ && SSL_pending(ssl_.get()) > 0)) return at_once({false});
  if (!watch_->wait.pending()) arm();
  return boost::asio::async_initiate<const boost::asio::use_awaitable_t<Executor>, void(Waited)>(
      [](auto handler, Watch* state) { state->waiter.emplace(std::move(handler)); }, use_task, watch_.get());
}

Task<error_code> Connection::wait_writable() {
  const auto watch = watch_;
  auto [ec] = co_await socket_.async_wait(Socket::wait_write, as_result);
  if (watch->closed) co_return boost::asio::error::operation_aborted;
  co_return ec;
}

void Connection::watch(OnReadable on_readable, void* owner) {
  watch_->on_readable = on_readable;
  watch_->owner = owner;
  if (!watch_->wait.pending() && !watch_->ready && !watch_->closed) arm();
}

void Connection::unwatch() noexcept {
  watch_->on_readable = nullptr;
  watch_->owner = nullptr;
}

void Connection::interrupt() {
  const auto watch = watch_;  // the resumed coroutine may destroy the connection
  if (watch->waiter) watch->fire();
}

void Connection::forget_readable() noexcept { watch_->ready = false; }

bool Connection::readable() const noexcept { return watch_->ready; }

IoResult Connection::peek() noexcept {
  char byte = 0;
  return peek({&byte, 1});
}

IoResult Connection::peek(std::span<char> into) noexcept {
  emptied_ = false;
  if (!socket_.is_open()) return {Io::error, 0, boost::asio::error::operation_aborted};
  if (ssl_) {
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_peek_ex(ssl_.get(), into.data(), into.size(), &got);
    if (result == 1) return {Io::ok, got, {}};
    return ssl_failure(ssl_.get(), result, true);
  }
  const auto got = ::recv(socket_.native_handle(), into.data(), into.size(), MSG_PEEK);
  if (got > 0) return {Io::ok, static_cast<std::size_t>(got), {}};
  if (got == 0) return {Io::eof, 0, {}};
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    emptied_ = true;
    return {Io::would_block, 0, {}};
  }
  if (errno == EINTR) return {Io::would_block, 0, {}};
  return {Io::error, 0, system_error(errno)};
}

bool Connection::peer_closed(bool fin_counts) const noexcept {
  // poll() reports POLLERR and POLLHUP unasked; POLLHUP alone needs both directions closed, so a FIN does not set it.
  auto& socket = const_cast<Socket&>(socket_);  // native_handle() is not const
  return poll_now(socket.native_handle(), fin_counts ? POLLRDHUP : short{0}) != 0;
}

bool Connection::input_waits() const noexcept {
  auto& socket = const_cast<Socket&>(socket_);
  return poll_now(socket.native_handle(), POLLIN) != 0;
}

void Connection::close() noexcept {
  if (watch_->closed) return;
  watch_->closed = true;
  if (ssl_ && SSL_is_init_finished(ssl_.get()) != 0) {
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());  // one try at close_notify; the socket goes in any case
  }
  error_code ignored;
  socket_.close(ignored);  // queues the handlers of pending waits with operation_aborted
  // A coroutine may wait although the reactor has nothing (it was told of an old readiness): wake it from the loop.
  if (watch_->waiter && !watch_->wait.pending()) {
    boost::asio::post(socket_.get_executor(), [watch = watch_] { watch->fire(); });
  }
}

void Connection::reset() noexcept {
  ssl_.reset();  // no close_notify: that would be an orderly end
  error_code ignored;
  socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
  close();
}

void Connection::shutdown_send() noexcept {
  if (ssl_) {
    ERR_clear_error();
    (void)SSL_shutdown(ssl_.get());
  }
  error_code ignored;
  socket_.shutdown(Socket::shutdown_send, ignored);
}

}  // namespace warmroute::net
