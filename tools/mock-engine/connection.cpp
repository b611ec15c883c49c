#include "connection.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/write.hpp>
#include <cerrno>

namespace warmroute::mock {

namespace asio = boost::asio;
namespace http = boost::beast::http;

Connection::Connection(net::Socket socket) : socket_(std::move(socket)), timer_(socket_.get_executor()) {
  net::error_code ignored;  // not supported on what is not TCP: slower, not wrong
  (void)socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  (void)socket_.non_blocking(true, ignored);
}

net::Task<bool> Connection::read_some() {
  constexpr std::size_t step = 16384;
  const std::size_t before = in_.size();
  in_.resize(before + step);
  auto [ec, n] = co_await socket_.async_read_some(asio::buffer(in_.data() + before, step), net::as_result);
  in_.resize(before + n);
  co_return !ec && !gone_;
}

net::Task<bool> Connection::read_request() {
  handling_ = false;
  pipelined_ = false;
  idle_since_ = net::Clock::now();
  constexpr std::size_t head_limit = 1U << 20U;
  std::size_t searched = 0;
  std::size_t end = 0;
  while ((end = in_.find("\r\n\r\n", searched)) == std::string::npos) {
    searched = in_.size() < 3 ? 0 : in_.size() - 3;
    if (in_.size() > head_limit || !co_await read_some()) co_return false;
  }
  handling_ = true;
  request.raw_head = in_.substr(0, end + 4);
  request.method = request.raw_head.substr(0, request.raw_head.find(' '));
  Parser parser;
  parser.header_limit(head_limit + 4096);
  parser.body_limit(boost::none);
  parser.eager(true);
  if (!co_await read_body(parser)) co_return false;
  auto& message = parser.get();
  request.method = message.method_string();
  request.target = message.target();
  request.body = std::move(message.body());
  keep_alive = message.keep_alive();
  http10 = message.version() < 11;
  pipelined_ = false;  // what the watch of the request before saw was this request
  co_return true;
}

net::Task<bool> Connection::read_body(Parser& parser) {
  bool continued = false;
  for (;;) {
    net::error_code ec;
    in_.erase(0, parser.put(asio::buffer(in_), ec));
    if (ec && ec != http::error::need_more) {
      const std::string why = ec.message();
      (void)co_await write("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: " +  // it ends anyway
                           std::to_string(why.size()) + "\r\n\r\n" + why);
      co_return false;
    }
    if (parser.is_done()) co_return true;
    if (!continued && parser.is_header_done() && !request.header("expect").empty()) {
      continued = true;
      if (!co_await write("HTTP/1.1 100 Continue\r\n\r\n")) co_return false;
    }
    if (!co_await read_some()) co_return false;
  }
}

void Connection::watch() {
  if (watching_ || pipelined_ || gone_) return;
  watching_ = true;
  socket_.async_wait(asio::socket_base::wait_read, [this](net::error_code ec) {
    watching_ = false;
    if (!ec) on_readable();
    timer_.cancel();
  });
}

void Connection::on_readable() {
  char byte = 0;
  const auto n = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  if (n > 0) {
    pipelined_ = true;  // the next request is already here: readiness tells nothing new, wait_until() asks
    gone_ = peer_closed();
  } else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    gone_ = true;
    net::error_code ignored;  // nothing more can be done for a broken socket
    (void)socket_.cancel(ignored);
  }
}

bool Connection::peer_closed() {
  pollfd entry{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&entry, 1, 0) > 0;
}

net::Task<bool> Connection::wait_until(net::Clock::time_point until) {
  watch();
  if (pipelined_) {
    gone_ = gone_ || peer_closed();
    until = std::min(until, net::Clock::now() + std::chrono::milliseconds(200));
  }
  if (gone_) co_return false;
  timer_.expires_at(until);
  (void)co_await timer_.async_wait(net::as_result);  // woken or due, the caller looks at its own condition
  co_return !gone_;
}

net::Task<> Connection::wait_for_leave() {
  while (!gone_) (void)co_await wait_until(net::Clock::time_point::max());  // the loop's condition says it
}

net::Task<bool> Connection::write(std::string_view bytes) {
  if (gone_) co_return false;
  const auto sent = ::send(socket_.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    gone_ = true;
    co_return false;
  }
  if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
  if (bytes.empty()) co_return true;
  watch();
  auto [ec, n] = co_await asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()), net::as_result);
  if (ec) gone_ = true;
  co_return !gone_;
}

void Connection::reset() {
  net::error_code ignored;  // a socket that is already dead needs no reset
  (void)socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  (void)socket_.close(ignored);
}

void Connection::abort() {
  gone_ = true;
  net::error_code ignored;  // it is going away
  (void)socket_.close(ignored);
  timer_.cancel();
}

net::Task<> Connection::end() {
  net::error_code ignored;  // it is going away
  (void)socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  (void)socket_.close(ignored);
  while (watching_) {
    timer_.expires_at(net::Clock::time_point::max());
    (void)co_await timer_.async_wait(net::as_result);  // the watch's handler cancels it
  }
}

}  // namespace warmroute::mock
