#pragma once
// The small HTTP server behind the metrics and debug listeners: GET and HEAD, one handler, control thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "net/task.hpp"
#include "warmroute/result.hpp"

namespace warmroute::admin {

struct Page {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpServer {
 public:
  /// \param name for messages, e.g. "Metrics server". Head read time-out 10 s, idle 60 s, at most 100 connections.
  HttpServer(net::io_context& control, std::string name, std::function<Page(std::string_view target)> handler);
  ~HttpServer();
  /// Error: "Metrics server listen failed: ...". Address empty: all (IPv6 dual stack, IPv4 alone where it is missing).
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warmroute::admin
