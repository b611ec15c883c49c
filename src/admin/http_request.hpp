#pragma once
// A request of the small HTTP server, read from the bytes that came so far. No I/O.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace warmroute::admin {

/// One request, read or refused.
struct Request {
  bool complete = false;  ///< false: read on
  int refused = 0;        ///< the status of the refusal, 0: none
  bool head_only = false;
  bool keep_alive = false;
  bool post = false;
  std::string target, content_type, content_encoding, body;
  std::size_t used = 0;  ///< bytes of the input that belong to it
};

/// \param input from the beginning of a request; more may follow it. A head of 8 KiB at most, else 431.
/// \param post_limit bytes of a POST's body, else 413; nullopt: POST is refused, too.
[[nodiscard]] Request read_request(std::string_view input, std::optional<std::size_t> post_limit);

}  // namespace warmroute::admin
