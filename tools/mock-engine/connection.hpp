#pragma once
// One client connection: reads requests, writes answers, waits, and notices at any wait that the client left.
// Reader, writer and waiter are the one coroutine of Server::serve; the watch only peeks.

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>
#include <string>

#include "net/task.hpp"
#include "request.hpp"

namespace warmroute::mock {

class Connection {
 public:
  explicit Connection(net::Socket socket);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// False: the connection ends (closed, broken, or refused with an answer already written).
  net::Task<bool> read_request();
  /// False when the client left before `until`. wake() ends the wait early.
  net::Task<bool> wait_until(net::Clock::time_point until);
  /// Until the client leaves or the server stops.
  net::Task<> wait_for_leave();
  net::Task<bool> write(std::string_view bytes);
  /// Sends a reset instead of a FIN, dropping what was not sent.
  void reset();
  /// Closes and waits until nothing refers to this object any more.
  net::Task<> end();

  void wake() { timer_.cancel(); }
  /// The server stops: everything waiting returns.
  void abort();
  [[nodiscard]] bool gone() const noexcept { return gone_; }
  [[nodiscard]] bool idle_since(net::Clock::time_point then) const noexcept { return !handling_ && idle_since_ < then; }

  Request request;
  bool keep_alive = false;
  bool http10 = false;

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;

  net::Task<bool> read_some();
  net::Task<bool> read_body(Parser& parser);
  void watch();
  void on_readable();
  [[nodiscard]] bool peer_closed();

  net::Socket socket_;
  net::Timer timer_;
  std::string in_;
  net::Clock::time_point idle_since_ = net::Clock::now();
  bool handling_ = false;
  bool watching_ = false;
  bool pipelined_ = false;
  bool gone_ = false;
};

}  // namespace warmroute::mock
