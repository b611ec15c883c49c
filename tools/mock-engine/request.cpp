#include "request.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include "text.hpp"

namespace warmroute::mock {
namespace {

void append_text_or_base64(std::string& out, std::string_view name, std::string_view bytes) {
  const bool text = simdjson::validate_utf8(bytes.data(), bytes.size());
  out += '"';
  out += name;
  out += text ? "\":" : "_base64\":";
  append_quoted(out, text ? std::string(bytes) : base64(bytes));
}

std::string printable(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes.data(), bytes.size())) return std::string(bytes);
  std::string out;  // header bytes above 0x7F are read as Latin-1, as Python's HTTP servers do
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80U) {
      out += c;
    } else {
      out += static_cast<char>(0xC0U | (byte >> 6U));
      out += static_cast<char>(0x80U | (byte & 0x3FU));
    }
  }
  return out;
}

}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> Request::headers() const {
  std::vector<std::pair<std::string_view, std::string_view>> all;
  std::string_view rest = raw_head;
  rest.remove_prefix(std::min(rest.size(), rest.find("\r\n") + 2));
  while (!rest.empty()) {
    const auto end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    if (line.empty() || end == std::string_view::npos) break;
    if (const auto colon = line.find(':'); colon != std::string_view::npos)
      all.emplace_back(line.substr(0, colon), trimmed(line.substr(colon + 1)));
    rest.remove_prefix(end + 2);
  }
  return all;
}

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers())
    if (equals_ignoring_case(key, name)) return value;
  return {};
}

std::string_view reason_phrase(int status) noexcept {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 204:
      return "No Content";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Payload Too Large";
    case 422:
      return "Unprocessable Entity";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    default:
      return "Status";
  }
}

Reply error_reply(int status, std::string_view message) {
  std::string_view type = "InternalServerError";
  if (status == 404)
    type = "NotFoundError";
  else if (status == 429)
    type = "RateLimitError";
  else if (status == 503)
    type = "ServiceUnavailableError";
  else if (status < 500)
    type = "BadRequestError";
  Reply reply;
  reply.status = status;
  reply.body = fmt::format(R"({{"error":{{"message":{},"type":"{}","param":null,"code":{}}}}})", json_string(message),
                           type, status);
  return reply;
}

void append_echo_members(std::string& out, const Request& request) {
  out += "\"method\":";
  append_quoted(out, request.method);
  out += ",\"target\":";
  append_quoted(out, printable(request.target));
  out += ",\"headers\":[";
  bool first = true;
  for (const auto& [name, value] : request.headers()) {
    if (!first) out += ',';
    first = false;
    out += '[';
    append_quoted(out, printable(name));
    out += ',';
    append_quoted(out, printable(value));
    out += ']';
  }
  out += "],";
  append_text_or_base64(out, "body", request.body);
}

Reply echo_reply(const Request& request) {
  Reply reply;
  reply.body = "{";
  append_echo_members(reply.body, request);
  reply.body += '}';
  return reply;
}

}  // namespace warmroute::mock
