#include "admin/http_request.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/system/error_code.hpp>

namespace warmroute::admin {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using error_code = boost::system::error_code;

constexpr std::size_t head_limit_bytes = 8U << 10U;

/// The body of a POST whose head is complete, if it is all there.
void read_post(std::string_view input, std::optional<std::uint64_t> length, std::size_t limit, Request& request) {
  const auto head_end = input.find("\r\n\r\n");
  if (!length || head_end == std::string_view::npos) {
    request.refused = 411;
    return;
  }
  if (*length > limit) {
    request.refused = 413;
    return;
  }
  const std::size_t whole = head_end + 4 + static_cast<std::size_t>(*length);
  request.complete = input.size() >= whole;
  if (!request.complete) return;
  request.post = true;
  request.body = std::string(input.substr(head_end + 4, static_cast<std::size_t>(*length)));
  request.used = whole;
}

}  // namespace

Request read_request(std::string_view input, std::optional<std::size_t> post_limit) {
  Request request;
  http::request_parser<http::empty_body> parser;
  parser.header_limit(head_limit_bytes);
  parser.body_limit(boost::none);  // read_post() has the limit
  error_code ec;
  request.used = parser.put(asio::buffer(input.data(), input.size()), ec);
  if (ec == http::error::need_more && input.size() < head_limit_bytes) return request;
  request.complete = true;
  if (!parser.is_header_done()) {
    const bool too_large = ec == http::error::header_limit || ec == http::error::need_more;
    request.refused = too_large ? 431 : 400;
    return request;
  }
  const auto& head = parser.get();
  request.head_only = head.method() == http::verb::head;
  // A body is not read; what follows on the connection is then unknown.
  request.keep_alive = !ec && parser.is_done() && parser.keep_alive();
  request.target = std::string(head.target().data(), head.target().size());
  if (head.method() == http::verb::post && post_limit) {
    const auto length = parser.content_length();
    request.keep_alive = parser.keep_alive();
    const auto type = head[http::field::content_type];
    request.content_type = std::string(type.data(), type.size());
    const auto encoding = head[http::field::content_encoding];
    request.content_encoding = std::string(encoding.data(), encoding.size());
    read_post(input, length ? std::optional<std::uint64_t>(*length) : std::nullopt, *post_limit, request);
  } else if (head.method() != http::verb::get && !request.head_only)
    request.refused = 405;
  else if (ec && ec != http::error::unexpected_body)
    request.refused = 400;
  return request;
}

}  // namespace warmroute::admin
