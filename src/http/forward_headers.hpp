#pragma once
// Which headers travel (decision 3.11). One rule for every path: hop-by-hop ones and those that Connection names stay
// here, in both directions; everything else passes unchanged.

#include <cstdint>
#include <string>
#include <string_view>

#include "http/head.hpp"

namespace warmroute::http {

struct RequestForwarding {
  std::string_view target;      ///< origin form: path and query as the client wrote them
  std::string_view request_id;  ///< replaces or adds x-request-id
  bool has_body = false;        ///< a Content-Length is written
  std::uint64_t content_length = 0;
  bool drop_content_encoding = false;  ///< the decoded body goes out
  bool drop_authorization = false;     ///< the router itself checked it
  std::string_view forwarded_for;      ///< client address for X-Forwarded-For; empty: not added
  std::string_view forwarded_proto;
};

/// The request head towards the engine, complete with its empty line.
void append_request_head(std::string& out, const Head& client, const RequestForwarding& forwarding);

struct ResponseForwarding {
  std::string_view request_id;
  std::string_view date;  ///< used when the engine sent none
  Framing framing;        ///< as sent to the client
  /// For HEAD and 304: pass the engine's own Content-Length though there is no body.
  bool keep_content_length = false;
  bool close = false;
  bool http10_keep_alive = false;  ///< a HTTP/1.0 client asked for keep-alive and gets it
};

/// The response head towards the client, complete with its empty line.
void append_response_head(std::string& out, const Head& engine, const ResponseForwarding& forwarding);

/// An id the client may bring: 1 to 128 bytes of printable ASCII.
[[nodiscard]] bool usable_request_id(std::string_view id) noexcept;
/// A random UUID version 4, 36 characters.
void append_uuid(std::string& out);
/// "Mon, 30 Nov 2026 03:04:05 GMT", cached per thread for the second.
[[nodiscard]] std::string_view http_date();

}  // namespace warmroute::http
