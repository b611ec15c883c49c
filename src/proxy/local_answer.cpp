#include "proxy/local_answer.hpp"

#include <algorithm>

#include "http/forward_headers.hpp"

namespace warmroute::proxy {
namespace {

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 301:
      return "Moved Permanently";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Request Entity Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return status < 500 ? "Error" : "Internal Server Error";
  }
}

void append_head(std::string& out, const LocalAnswer& what, std::string_view request_id, bool close,
                 bool http10_keep_alive) {
  out += "HTTP/1.1 ";
  out += std::to_string(what.status);
  out.append(" ").append(reason_phrase(what.status)).append("\r\nContent-Type: ").append(what.content_type);
  out.append("\r\nDate: ").append(http::http_date());
  out.append("\r\nContent-Length: ").append(std::to_string(what.body.size()));
  if (!what.location.empty()) out.append("\r\nLocation: ").append(what.location);
  if (!request_id.empty()) out.append("\r\nx-request-id: ").append(request_id);
  if (what.retry_after_seconds > 0) out.append("\r\nRetry-After: ").append(std::to_string(what.retry_after_seconds));
  if (close) out += "\r\nConnection: close";
  if (http10_keep_alive) out += "\r\nConnection: keep-alive";
  out += "\r\n\r\n";
}

std::string model_object(std::string_view id) {
  std::string out = R"({"id":")";
  openai::append_json_escaped(out, id, true);
  out += R"(","object":"model","created":0,"owned_by":"kthena"})";
  return out;
}

std::string model_list(const route::Table& table) {
  std::string out = R"({"object":"list","data":[)";
  bool first = true;
  for (const auto& id : table.listed_models()) {
    if (!first) out += ',';
    first = false;
    out += model_object(id);
  }
  out += "]}";
  return out;
}

openai::ErrorKind kind_of(const Error& error) noexcept {
  switch (error.code) {
    case Errc::bad_version:
      return openai::ErrorKind::bad_version;
    case Errc::unknown_coding:
      return openai::ErrorKind::unknown_coding;
    case Errc::head_too_large:
      return openai::ErrorKind::head_too_large;
    case Errc::timeout:
      return openai::ErrorKind::head_timeout;
    default:
      return openai::ErrorKind::bad_framing;
  }
}

}  // namespace

net::Task<> answer(Exchange& exchange,
                   LocalAnswer what) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  if (exchange.body_unread || exchange.shared.draining.load(std::memory_order_relaxed)) exchange.keep_alive = false;
  std::string out;
  out.reserve(384 + what.body.size());
  const bool http10 = exchange.head.version == 10;
  append_head(out, what, exchange.request_id, !exchange.keep_alive, http10 && exchange.keep_alive);
  if (exchange.head.method != "HEAD") out += what.body;
  exchange.record.status = what.status;
  exchange.answered = true;
  (void)co_await exchange.session.write_all(out);  // a client that is gone needs no answer
}

net::Task<> answer_error(Exchange& exchange, openai::ErrorKind kind, std::string message,
                         int retry_after_seconds) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  const openai::ErrorForm form{exchange.shared.settings.compat,
                               exchange.record.path_label == model::PathLabel::messages};
  const auto reply = openai::render_error(kind, message, form);
  exchange.record.error_type = openai::code(kind);
  exchange.record.metric_error_type = openai::metric_error_type(kind);
  exchange.record.error_message = std::move(message);
  if (reply.close) exchange.keep_alive = false;
  LocalAnswer what;
  what.status = reply.status;
  what.content_type = reply.content_type;
  what.body = reply.body;
  what.retry_after_seconds = reply.retry_after_seconds;
  if (retry_after_seconds > 0 && what.retry_after_seconds > 0) what.retry_after_seconds = retry_after_seconds;
  co_await answer(exchange, what);
}

net::Task<> answer_refusal(Session& session,
                           Error error) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  const openai::ErrorForm form{session.shared().settings.compat, false};
  const auto reply = openai::render_error(kind_of(error), error.detail, form);
  LocalAnswer what;
  what.status = reply.status;
  what.content_type = reply.content_type;
  what.body = reply.body;
  std::string out;
  append_head(out, what, {}, true, false);
  out += reply.body;
  (void)co_await session.write_all(out);  // the connection ends in any case
}

net::Task<bool> answer_locally(Exchange& exchange) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  const std::string_view path = exchange.path;
  const auto method = exchange.head.method;
  const bool reads = method == "GET" || method == "HEAD";
  LocalAnswer what;
  std::string body;
  const bool known_method = reads || method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE" ||
                            method == "OPTIONS" || method == "CONNECT" || method == "TRACE";
  if (!known_method) {  // Go's router proxies the nine methods of the standard, and no others
    co_await answer_error(exchange, openai::ErrorKind::path_not_found, "404 page not found");
    co_return true;
  }
  if (path == "/healthz/" || path == "/readyz/") {
    what.status = reads ? 301 : 307;
    what.content_type = "text/html; charset=utf-8";
    what.location = path.substr(0, path.size() - 1);
  } else if (path == "/v1") {
    what.status = reads ? 301 : 307;
    what.content_type = "text/html; charset=utf-8";
    what.location = "/v1/";
  } else if (path.starts_with("/v1/")) {
    constexpr std::string_view one = "/v1/models/";
    if (!reads || !path.starts_with("/v1/models")) co_return false;
    if (path == "/v1/models") {
      body = model_list(*exchange.table);
    } else if (path.starts_with(one) && path.size() > one.size()) {
      const auto id = path.substr(one.size());
      const auto& listed = exchange.table->listed_models();
      if (!std::binary_search(listed.begin(), listed.end(), id)) {
        co_await answer_error(exchange, openai::ErrorKind::model_unknown,
                              "model not found: no ModelRoute with a ModelServer lists this name");
        co_return true;
      }
      body = model_object(id);
    } else {
      co_return false;
    }
    what.body = body;
  } else if (reads && path == "/healthz") {
    what.body = R"({"message":"ok"})";
  } else if (reads && path == "/readyz") {
    const bool ready = exchange.shared.ready.load(std::memory_order_relaxed) &&
                       !exchange.shared.draining.load(std::memory_order_relaxed);
    what.status = ready ? 200 : 503;
    what.body = ready ? R"({"message":"router is ready"})" : R"({"message":"router is not ready"})";
  } else if (reads && path == "/metrics" && exchange.shared.settings.metrics_on_router_port) {
    body = exchange.shared.registry->serialize();
    what.content_type = "text/plain; version=0.0.4; charset=utf-8";
    what.body = body;
  } else {
    co_await answer_error(exchange, openai::ErrorKind::path_not_found, "404 page not found");
    co_return true;
  }
  co_await answer(exchange, what);
  co_return true;
}

}  // namespace warmroute::proxy
