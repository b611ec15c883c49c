#pragma once
// One table of everything the router itself can answer: status, type, code and text, in both forms
// (OpenAI error objects, or the bare strings of --compat=kthena).

#include <cstdint>
#include <string>
#include <string_view>

namespace warmroute::openai {

/// Why the router answers by itself. `code(kind)` is the error's `code`, the access log's error type.
enum class ErrorKind : std::uint8_t {
  body_interrupted,      // client closed or broke its framing inside the body: 400 (compat 500)
  body_timeout,          // 408
  bad_json,              // 400, message says what and where
  trailing_data,         // 400 "invalid request body"
  model_missing,         // 400 (compat 404) "model not found"
  prompt_missing,        // compat only: 404 "prompt not found"
  bad_framing,           // 400, close
  head_too_large,        // 431, close
  head_timeout,          // 408, close
  unknown_coding,        // 501, close
  bad_version,           // 505, close
  body_too_large,        // 413, close
  unsupported_encoding,  // 415
  path_not_found,        // 404 "404 page not found" (compat: text/plain)
  model_unknown,         // GET /v1/models/{id} of a name that is not listed: 404
  route_not_found,       // 404 "route not found"
  server_missing,        // 404 "can't find model server: ns/n"
  no_pods,               // 503 "no available pods for model server: ns/n"
  all_filtered,          // 503 (compat 400) "can't schedule to target pod: pods have all been filtered out by ..."
  no_candidates,         // 503 "request to all pods failed" (nothing could be tried)
  all_pods_failed,       // 503 "request to all pods failed"
  all_pods_timed_out,    // 504 "request to all pods failed"
  not_supported,         // 503, code not_supported
  queue_full,            // 503, every pod at its in-flight limit and too many requests wait already
  queue_timeout,         // 503, waited for a pod until the deadline
  overloaded,            // 503, buffered bytes or connections at their limit
  draining,              // 503
  internal               // 500
};

struct ErrorForm {
  bool compat = false;     ///< --compat=kthena
  bool anthropic = false;  ///< path /v1/messages: Anthropic's type names and top-level "type":"error"
};

struct ErrorReply {
  int status = 500;
  std::string content_type;
  std::string body;
  int retry_after_seconds = 0;  ///< 0: no Retry-After header
  bool close = false;           ///< the connection cannot be used any further
};

/// The access log's `error.type` and the JSON member `code`. A literal.
[[nodiscard]] std::string_view code(ErrorKind kind) noexcept;
/// The label error_type of requests_total (spec 2.4, decision 3.17); empty: the default of the status. A literal.
[[nodiscard]] std::string_view metric_error_type(ErrorKind kind) noexcept;
[[nodiscard]] int status(ErrorKind kind, bool compat) noexcept;
/// `message` is escaped as JSON; invalid UTF-8 in it becomes U+FFFD.
[[nodiscard]] ErrorReply render_error(ErrorKind kind, std::string_view message, ErrorForm form);
/// Type T of decision 3.1 for any status.
[[nodiscard]] std::string_view error_type(int status) noexcept;
/// The `data: {"error":...}` event (with its blank line) that ends a cut SSE stream (decision 3.5).
[[nodiscard]] std::string cut_stream_event(std::string_view message, ErrorForm form);
/// Appends `text` as the inside of a JSON string; Go's form also escapes <, >, & (compat, access log).
void append_json_escaped(std::string& out, std::string_view text, bool escape_html);

}  // namespace warmroute::openai
