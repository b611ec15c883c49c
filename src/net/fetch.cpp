#include "net/fetch.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <span>
#include <string_view>
#include <utility>

namespace warmroute::net {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Parser = http::response_parser<http::string_body>;

constexpr std::uint32_t header_limit_bytes = 64U << 10U;
constexpr std::size_t read_bytes = 16U << 10U;
constexpr int interim_limit = 4;  ///< 1xx answers before the final one

Error engine_error(Errc code, std::string detail, Retry retry = Retry::never) {
  return {code, Source::engine, retry, std::move(detail)};
}

/// A failure that a connection closed by the engine between two requests shows.
bool is_closed(const Error& error) { return error.code == Errc::closed || error.code == Errc::reset; }

Error from_code(const error_code& code, std::string_view step) {
  Errc kind = Errc::io;
  if (code == asio::error::operation_aborted || code == asio::error::bad_descriptor) kind = Errc::cancelled;
  if (code == asio::error::connection_refused) kind = Errc::refused;
  if (code == asio::error::eof) kind = Errc::closed;
  if (code == asio::error::connection_reset || code == asio::error::broken_pipe ||
      code == asio::error::connection_aborted)
    kind = Errc::reset;
  if (code == asio::error::timed_out) kind = Errc::timeout;
  return engine_error(kind, std::string(step) + ": " + code.message());
}

std::string host_header(const FetchRequest& request) {
  const bool v6 = request.ip.find(':') != std::string::npos;
  std::string host = v6 ? "[" + request.ip.substr(0, request.ip.find('%')) + "]" : request.ip;
  const std::uint16_t usual = request.tls != nullptr ? 443 : 80;
  if (request.port != usual) host += ":" + std::to_string(request.port);
  return host;
}

std::string request_text(const FetchRequest& request) {
  return "GET " + request.target + " HTTP/1.1\r\nHost: " + host_header(request) +
         "\r\nUser-Agent: warmroute/" WARMROUTE_VERSION "\r\nAccept: */*\r\n\r\n";
}

}  // namespace

/// One connection and at most one exchange on it. Shared by its owner and the coroutine of a running exchange, which
/// may outlive the owner by the moment its cancellation takes. The coroutine is the only reader and writer.
struct FetchConnection::Impl {
  explicit Impl(io_context& io) : socket(io.get_executor()), timer(io.get_executor()) {}

  Socket socket;
  Timer timer;
  SslPtr ssl;
  std::string peer;  ///< ip, port and TLS context of the open connection
  bool busy = false;
  bool timed_out = false;
  bool cancelled = false;
  std::uint64_t exchange = 0;             ///< a late timer handler must not close the next exchange's socket
  std::array<char, read_bytes> buffer{};  ///< here and not in a coroutine frame

  void close() noexcept {
    ssl.reset();
    peer.clear();
    error_code ignored;  // the descriptor is released whatever close says
    (void)socket.close(ignored);
  }
  /// Why nothing more may be done; the reason of our own beats what the socket says.
  [[nodiscard]] Error reason(Error error) const {
    if (timed_out) return engine_error(Errc::timeout, "no complete answer in time");
    if (cancelled) return engine_error(Errc::cancelled, "cancelled");
    return error;
  }

  static Task<Result<FetchResponse>> run(std::shared_ptr<Impl> self, FetchRequest request);
  static Task<Result<FetchResponse>> exchange_once(Impl& self, const FetchRequest& request, bool& got_bytes);
  static Task<Result<void>> open(Impl& self, const FetchRequest& request);
  static Task<Result<void>> handshake(Impl& self, const FetchRequest& request);
  static Task<Result<void>> send(Impl& self, std::string_view text);
  static Task<Result<std::size_t>> receive(Impl& self);
  static Task<Result<void>> wait_for(Impl& self, int ssl_error, std::string_view step);
};

namespace {

/// Arms the one timer of an exchange and clears up behind it, also when the coroutine is destroyed in the middle.
template <class Impl>
class ExchangeGuard {
 public:
  ExchangeGuard(const std::shared_ptr<Impl>& impl, std::chrono::milliseconds timeout) : impl_(*impl) {
    impl_.busy = true;
    impl_.timed_out = impl_.cancelled = false;
    const auto number = ++impl_.exchange;
    impl_.timer.expires_after(timeout);
    impl_.timer.async_wait([impl, number](const error_code& code) {
      if (code || number != impl->exchange || !impl->busy) return;
      impl->timed_out = true;
      impl->close();
    });
  }
  ExchangeGuard(const ExchangeGuard&) = delete;
  ExchangeGuard& operator=(const ExchangeGuard&) = delete;
  ~ExchangeGuard() {
    impl_.busy = false;
    impl_.timer.cancel();
    if (!keep_) impl_.close();
  }
  void keep_connection() noexcept { keep_ = true; }

 private:
  Impl& impl_;
  bool keep_ = false;
};

}  // namespace

Task<Result<void>> FetchConnection::Impl::wait_for(Impl& self, int ssl_error, std::string_view step) {
  const bool write = ssl_error == SSL_ERROR_WANT_WRITE;
  if (!write && ssl_error != SSL_ERROR_WANT_READ) {
    const unsigned long code = ERR_peek_error();
    const char* const text = code == 0 ? nullptr : ERR_reason_error_string(code);
    const bool cut = ssl_error == SSL_ERROR_ZERO_RETURN || (ssl_error == SSL_ERROR_SYSCALL && code == 0) ||
                     ERR_GET_REASON(code) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    ERR_clear_error();
    if (cut) co_return engine_error(Errc::closed, std::string(step) + ": connection closed");
    const long verdict = SSL_get_verify_result(self.ssl.get());
    std::string why = text != nullptr ? text : "TLS failure";
    if (verdict != X509_V_OK) why = X509_verify_cert_error_string(verdict);
    co_return engine_error(Errc::tls, std::string(step) + ": " + why);
  }
  const auto direction = write ? Socket::wait_write : Socket::wait_read;
  auto [code] = co_await self.socket.async_wait(direction, as_result);
  if (code) co_return self.reason(from_code(code, step));
  // A close may have come between the event and this line; the descriptor may already belong to someone else.
  if (!self.ssl) co_return self.reason(engine_error(Errc::cancelled, "closed"));
  co_return Result<void>();
}

Task<Result<void>> FetchConnection::Impl::handshake(Impl& self, const FetchRequest& request) {
  self.ssl = request.tls->session(self.socket.native_handle(), request.host.empty() ? request.ip : request.host);
  if (!self.ssl) co_return engine_error(Errc::tls, "handshake: cannot create a session");
  for (;;) {
    ERR_clear_error();
    const int done = SSL_connect(self.ssl.get());
    if (done == 1) co_return Result<void>();
    auto waited = co_await wait_for(self, SSL_get_error(self.ssl.get(), done), "handshake");
    if (!waited) co_return waited;
  }
}

Task<Result<void>> FetchConnection::Impl::open(Impl& self, const FetchRequest& request) {
  error_code code;
  const auto address = asio::ip::make_address(request.ip, code);
  if (code) co_return Error{Errc::bad_value, Source::internal, Retry::never, "not an address: " + request.ip};
  const asio::ip::tcp::endpoint endpoint(address, request.port);
  self.socket.open(endpoint.protocol(), code);
  if (!code) self.socket.non_blocking(true, code);
  if (!code) self.socket.set_option(asio::ip::tcp::no_delay(true), code);
  if (code) co_return from_code(code, "socket");
  auto [connect_code] = co_await self.socket.async_connect(endpoint, as_result);
  if (connect_code || !self.socket.is_open()) co_return self.reason(from_code(connect_code, "connect"));
  if (request.tls == nullptr) co_return Result<void>();
  co_return co_await handshake(self, request);
}

Task<Result<void>> FetchConnection::Impl::send(Impl& self, std::string_view text) {
  if (!self.ssl) {
    auto [code, size] = co_await asio::async_write(self.socket, asio::buffer(text.data(), text.size()), as_result);
    (void)size;  // all or an error
    if (code) co_return self.reason(from_code(code, "send"));
    co_return Result<void>();
  }
  while (!text.empty()) {
    ERR_clear_error();
    std::size_t written = 0;
    const int done = SSL_write_ex(self.ssl.get(), text.data(), text.size(), &written);
    if (done == 1) {
      text.remove_prefix(written);
      continue;
    }
    auto waited = co_await wait_for(self, SSL_get_error(self.ssl.get(), done), "send");
    if (!waited) co_return waited;
  }
  co_return Result<void>();
}

/// Into `buffer`. 0 never: the end of the stream is Errc::closed.
Task<Result<std::size_t>> FetchConnection::Impl::receive(Impl& self) {
  if (!self.ssl) {
    auto [code, size] = co_await self.socket.async_read_some(asio::buffer(self.buffer), as_result);
    if (code) co_return self.reason(from_code(code, "receive"));
    co_return size;
  }
  for (;;) {
    ERR_clear_error();
    std::size_t size = 0;
    const int done = SSL_read_ex(self.ssl.get(), self.buffer.data(), self.buffer.size(), &size);
    if (done == 1) co_return size;
    auto waited = co_await wait_for(self, SSL_get_error(self.ssl.get(), done), "receive");
    if (!waited) co_return waited.error();
  }
}

namespace {

/// The answer to one request, fed piece by piece.
class AnswerReader {
 public:
  explicit AnswerReader(std::size_t body_limit_bytes) : limit_(body_limit_bytes) { reset(); }

  [[nodiscard]] bool done() const { return parser_->is_done(); }
  /// The body of an answer without length ends with the connection.
  [[nodiscard]] bool ends_with_connection() const { return parser_->is_header_done() && parser_->need_eof(); }

  Result<void> put(std::string_view bytes) {
    if (!pending_.empty()) {
      pending_.append(bytes);
      bytes = pending_;
    }
    std::size_t used = 0;
    while (used < bytes.size() && !done()) {
      error_code code;
      used += parser_->put(asio::buffer(bytes.data() + used, bytes.size() - used), code);
      if (code == http::error::need_more) break;
      if (code) return failure(code);
      if (done() && parser_->get().result_int() / 100 == 1) {
        if (++interim_ > interim_limit) return engine_error(Errc::bad_framing, "answer: too many interim answers");
        reset();
      }
    }
    std::string rest(bytes.substr(used));  // an unfinished line; the parser wants it again
    pending_ = std::move(rest);
    return {};
  }
  Result<void> put_end() {
    error_code code;
    parser_->put_eof(code);
    if (code) return failure(code);
    return {};
  }
  /// True when the connection can carry another request.
  [[nodiscard]] bool reusable() const { return pending_.empty() && parser_->keep_alive(); }

  FetchResponse take() {
    FetchResponse response;
    auto& message = parser_->get();
    response.status = static_cast<int>(message.result_int());
    response.content_type = std::string(message[http::field::content_type]);
    response.body = std::move(message.body());
    return response;
  }

 private:
  void reset() {
    parser_ = std::make_unique<Parser>();
    parser_->eager(true);
    parser_->header_limit(header_limit_bytes);
    parser_->body_limit(limit_);
  }
  static Result<void> failure(const error_code& code) {
    if (code == http::error::body_limit) return engine_error(Errc::too_large, "answer: body over the limit");
    if (code == http::error::header_limit) return engine_error(Errc::head_too_large, "answer: head over the limit");
    if (code == http::error::partial_message) return engine_error(Errc::closed, "answer: cut");
    return engine_error(Errc::bad_framing, "answer: " + code.message());
  }

  std::size_t limit_;
  std::unique_ptr<Parser> parser_;
  std::string pending_;
  int interim_ = 0;
};

}  // namespace

Task<Result<FetchResponse>> FetchConnection::Impl::exchange_once(Impl& self, const FetchRequest& request,
                                                                 bool& got_bytes) {
  if (!self.socket.is_open()) {
    auto opened = co_await open(self, request);
    if (!opened) co_return opened.error();
  }
  const std::string text = request_text(request);
  auto sent = co_await send(self, text);
  if (!sent) co_return sent.error();
  AnswerReader answer(request.body_limit_bytes);
  bool open_end = true;
  while (!answer.done()) {
    auto size = co_await receive(self);
    if (!size && size.error().code == Errc::closed && answer.ends_with_connection()) {
      auto ended = answer.put_end();
      if (!ended) co_return ended.error();
      open_end = false;
      break;
    }
    if (!size) co_return size.error();
    got_bytes = true;
    auto taken = answer.put({self.buffer.data(), *size});
    if (!taken) co_return taken.error();
  }
  if (!open_end || !answer.reusable() || !self.socket.is_open()) self.close();
  co_return answer.take();
}

Task<Result<FetchResponse>> FetchConnection::Impl::run(std::shared_ptr<Impl> self, FetchRequest request) {
  if (self->busy) co_return Error{Errc::bug, Source::internal, Retry::never, "two exchanges on one connection"};
  // The address of the TLS context tells contexts apart; it is never followed.
  const std::string peer = request.ip + " " + std::to_string(request.port) + " " +
                           std::to_string(reinterpret_cast<std::uintptr_t>(request.tls));
  if (self->peer != peer) self->close();
  ExchangeGuard<Impl> guard(self, request.timeout);
  const bool reused = self->socket.is_open();
  bool got_bytes = false;
  auto response = co_await exchange_once(*self, request, got_bytes);
  if (!response && reused && !got_bytes && is_closed(response.error()) && !self->timed_out && !self->cancelled) {
    self->close();
    response = co_await exchange_once(*self, request, got_bytes);
  }
  if (response && self->socket.is_open()) {
    self->peer = peer;
    guard.keep_connection();
  }
  co_return response;
}

FetchConnection::FetchConnection(io_context& io) : impl_(std::make_shared<Impl>(io)) {}

FetchConnection::~FetchConnection() { cancel(); }

void FetchConnection::cancel() noexcept {
  if (impl_->busy) impl_->cancelled = true;
  impl_->close();
}

Task<Result<FetchResponse>> FetchConnection::get(FetchRequest request) { return Impl::run(impl_, std::move(request)); }

}  // namespace warmroute::net
