#include "webhook/server.hpp"

#include <utility>

#include "base/log.hpp"
#include "webhook/admission.hpp"

namespace warmroute::webhook {
namespace {

/// The API server takes objects of 3 MiB at most, and a review holds two of them.
constexpr std::size_t body_limit_bytes = 8U << 20U;
/// API servers open one for each review that is under way. Strangers can make us hold input_limit_bytes, not this many
/// bodies.
constexpr std::size_t connection_limit = 128;
constexpr std::size_t input_limit_bytes = 64U << 20U;
constexpr std::chrono::milliseconds exchange_limit{30'000};  // as kthena-router

admin::HttpServerLimits limits() {
  admin::HttpServerLimits limits;
  limits.head = exchange_limit;
  limits.connections = connection_limit;
  limits.input_bytes = input_limit_bytes;
  return limits;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find('?')); }

admin::Page page_of(Answer answer) {
  admin::Page page;
  page.status = answer.status;
  page.content_type = std::move(answer.content_type);
  page.body = std::move(answer.body);
  return page;
}

admin::Page get(std::string_view target) {
  if (path_of(target) != "/healthz") return page_of(review(path_of(target), {}, {}));
  admin::Page page;
  page.body = "ok";
  return page;
}

admin::Page post(const admin::Post& request, const Server::OnReview& on_review) {
  const std::string_view path = path_of(request.target);
  if (path == "/healthz") return get(path);
  Answer answer = review(path, request.content_type, request.body);
  if (answer.status == 400) log::error("Failed to parse admission request: {}", answer.body);
  if (on_review && answer.status != 404)
    on_review(answer.status != 200 ? Server::Outcome::unreadable
              : answer.allowed     ? Server::Outcome::allowed
                                   : Server::Outcome::denied);
  return page_of(std::move(answer));
}

}  // namespace

Server::Server(net::io_context& control, const net::ServerTls& tls, OnReview on_review)
    : http_(control, "Webhook server", get, limits()) {
  http_.use_tls([&tls](int descriptor) { return tls.session(descriptor); });
  http_.accept_posts(
      [on_review = std::move(on_review)](const admin::Post& request) { return post(request, on_review); },
      body_limit_bytes);
}

Server::~Server() = default;

Result<std::uint16_t> Server::listen(const std::string& address, std::uint16_t port) {
  return http_.listen(address, port);
}

const char* name(Server::Outcome outcome) noexcept {
  switch (outcome) {
    case Server::Outcome::allowed:
      return "allowed";
    case Server::Outcome::denied:
      return "denied";
    case Server::Outcome::unreadable:
      break;
  }
  return "unreadable";
}

}  // namespace warmroute::webhook
