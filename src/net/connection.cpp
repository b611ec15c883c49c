#include "net/connection.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <optional>
#include <utility>

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
    default:
      ERR_clear_error();
      return {Io::error, 0, system_error(EPROTO)};
  }
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

  bool pending = false;  // a wait is with the reactor
  bool ready = false;    // reported, not yet consumed
  bool closed = false;
  OnReadable on_readable = nullptr;
  void* owner = nullptr;
  std::optional<Handler> waiter;

  /// With the reactor while a wait is. When the loop goes without having run it, the waiting coroutine goes too: it may
  /// own the connection, and nobody else would end that circle.
  class Report {
   public:
    explicit Report(std::shared_ptr<Watch> watch) noexcept : watch_(std::move(watch)) {}
    Report(Report&&) noexcept = default;
    Report& operator=(Report&&) = delete;
    ~Report() {
      if (watch_) watch_->waiter.reset();
    }
    void operator()(error_code /*closed and failed sockets count as readable*/) {
      const auto watch = std::move(watch_);
      watch->pending = false;
      watch->ready = true;  // the next try_read says what it is
      watch->fire();
    }

   private:
    std::shared_ptr<Watch> watch_;
  };

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
    : socket_(std::move(socket)), ssl_(std::move(ssl)), watch_(std::make_shared<Watch>()) {
  error_code ignored;
  socket_.native_non_blocking(true, ignored);
}

Connection::~Connection() {
  watch_->on_readable = nullptr;
  close();
}

IoResult Connection::try_handshake() noexcept {
  watch_->ready = false;
  if (!socket_.is_open()) return {Io::error, 0, boost::asio::error::operation_aborted};
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
  if (!socket_.is_open()) return {Io::error, 0, boost::asio::error::operation_aborted};
  if (ssl_) {
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_read_ex(ssl_.get(), into.data(), into.size(), &got);
    if (result == 1) return {Io::ok, got, {}};
    return ssl_failure(ssl_.get(), result, true);
  }
  for (;;) {
    const auto got = ::recv(socket_.native_handle(), into.data(), into.size(), 0);
    if (got > 0) return {Io::ok, static_cast<std::size_t>(got), {}};
    if (got == 0) return {Io::eof, 0, {}};
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return {Io::would_block, 0, {}};
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

void Connection::arm() {
  watch_->pending = true;
  socket_.async_wait(Socket::wait_read, Watch::Report(watch_));
}

namespace {

Task<Waited> at_once(Waited result) { co_return result; }

}  // namespace

// Not a coroutine itself: one frame less for each wait.
Task<Waited> Connection::wait_readable() {
  if (watch_->closed) return at_once({true});
  if (watch_->ready || (ssl_ && SSL_pending(ssl_.get()) > 0)) return at_once({false});
  if (!watch_->pending) arm();
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
  if (!watch_->pending && !watch_->ready && !watch_->closed) arm();
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
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {Io::would_block, 0, {}};
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
  if (watch_->waiter && !watch_->pending) {
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
