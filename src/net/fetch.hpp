#pragma once
// A small HTTP/1.1 client for control traffic (scrapes, probes). One exchange per call on a connection that the
// caller may keep. Not for the request path.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "net/task.hpp"
#include "net/tls.hpp"
#include "warmroute/result.hpp"

namespace warmroute::net {

struct FetchRequest {
  std::string ip;  ///< textual address, no brackets
  std::uint16_t port = 0;
  std::string host;  ///< for TLS (SNI and verification); empty: the address
  std::string target = "/";
  const ClientTls* tls = nullptr;           ///< null: clear text
  std::chrono::milliseconds timeout{2000};  ///< whole exchange, connect included
  std::size_t body_limit_bytes = 8U << 20U;
};

struct FetchResponse {
  int status = 0;
  std::string content_type;
  std::string body;
};

/// Keeps one idle connection between calls of one caller (a pod's scrape loop).
class FetchConnection {
 public:
  explicit FetchConnection(io_context& io);
  ~FetchConnection();
  Task<Result<FetchResponse>> get(FetchRequest request);
  /// Closes the connection; a get() that is under way ends with Errc::cancelled.
  void cancel() noexcept;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace warmroute::net
