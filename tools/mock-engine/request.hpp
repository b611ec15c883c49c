#pragma once
// A request as received and an answer to be sent; no sockets here.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warmroute::mock {

struct Request {
  std::string method;
  std::string target;
  std::string raw_head;  ///< request line and headers as received, with the empty line
  std::string body;      ///< without chunk framing

  [[nodiscard]] std::string_view path() const {
    const std::string_view all = target;
    return all.substr(0, all.find('?'));
  }
  /// Name and value in the order received.
  [[nodiscard]] std::vector<std::pair<std::string_view, std::string_view>> headers() const;
  /// First value, or empty.
  [[nodiscard]] std::string_view header(std::string_view name) const;
};

struct Reply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::string extra_headers;  ///< whole lines
};

/// vLLM's error object.
[[nodiscard]] Reply error_reply(int status, std::string_view message);
[[nodiscard]] std::string_view reason_phrase(int status) noexcept;
/// {"method","target","headers","body"} or "body_base64" when the body is not UTF-8.
[[nodiscard]] Reply echo_reply(const Request& request);
/// The same members without the braces, for /control.
void append_echo_members(std::string& out, const Request& request);

}  // namespace warmroute::mock
