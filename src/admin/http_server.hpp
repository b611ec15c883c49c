#pragma once
// The small HTTP server behind the metrics, debug and webhook listeners: GET and HEAD, POST where it is wanted, TLS
// where it is wanted, control thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/task.hpp"
#include "net/tls.hpp"
#include "warmroute/result.hpp"

namespace warmroute::admin {

struct Page {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
  std::string location;  ///< for 301
};

/// A POST with its whole body.
struct Post {
  std::string_view target;  ///< path and query as received
  std::string_view content_type;
  std::string_view body;
  std::string_view content_encoding = {};  ///< of the body, which is as it was received
};

struct HttpServerLimits {
  std::chrono::milliseconds head{10'000};  ///< from the first byte of a request to its end; a TLS handshake, too
  std::chrono::milliseconds idle{60'000};  ///< between requests, and for the whole of an answer
  std::size_t connections = 100;           ///< at the limit the one that is idle longest is closed for a new one
  /// Held for requests that are not complete, in all connections together. Beyond it 503 for one that holds more than
  /// an equal share of it, so that small requests always get through: no more than about twice as much is held in all.
  std::size_t input_bytes = 64U << 20U;
};

class HttpServer {
 public:
  using Handler = std::function<Page(std::string_view target)>;
  using PostHandler = std::function<Page(const Post& post)>;
  /// A server session for the descriptor; null: there is no certificate now, and the connection is closed.
  using TlsSession = std::function<net::SslPtr(int descriptor)>;
  /// \param name for messages, e.g. "Metrics server".
  /// \param handler called on the control thread, not after stop(). `target` is the path and query as received.
  HttpServer(net::io_context& control, std::string name, Handler handler, HttpServerLimits limits = {});
  /// On the control thread or when `control` does not run any more, and before `control` is destroyed.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  /// Answers POST too, with a body of at most so many bytes (Content-Length only). Before listen().
  void accept_posts(PostHandler handler, std::size_t body_limit_bytes);
  /// Speaks TLS only. Before listen().
  void use_tls(TlsSession session);
  /// Once. Error: "Metrics server listen failed: ...". Address empty: all (IPv6 dual stack, IPv4 alone where it is
  /// missing); "localhost": 127.0.0.1; else an IP address.
  /// \return the port, chosen by the system when `port` is 0.
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);
  /// Closes the listener and all connections, requests that are under way included.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warmroute::admin
