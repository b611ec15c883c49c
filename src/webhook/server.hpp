#pragma once
// The webhook's HTTPS listener: reviews and /healthz. Control thread. Without a certificate connections are closed at
// once, so it may listen before there is one.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "admin/http_server.hpp"
#include "net/server_tls.hpp"
#include "warmroute/result.hpp"

namespace warmroute::webhook {

class Server {
 public:
  /// What became of a review, for a counter.
  enum class Outcome : std::uint8_t { allowed, denied, unreadable };
  using OnReview = std::function<void(Outcome)>;

  /// \param tls outlives the server. \param on_review may be empty.
  Server(net::io_context& control, const net::ServerTls& tls, OnReview on_review);
  ~Server();
  /// As admin::HttpServer::listen().
  Result<std::uint16_t> listen(const std::string& address, std::uint16_t port);

 private:
  admin::HttpServer http_;
};

[[nodiscard]] const char* name(Server::Outcome outcome) noexcept;

}  // namespace warmroute::webhook
