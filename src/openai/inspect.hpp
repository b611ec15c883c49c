#pragma once
// Step: what the router has to know of a request body. One simdjson on-demand pass over the received bytes;
// nothing is copied but what is hashed or compared. Previous step: proxy/body.cpp, next: route/table.cpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http/splice.hpp"
#include "model/request_record.hpp"
#include "openai/error_body.hpp"
#include "warmroute/request_view.hpp"

namespace warmroute::openai {

/// Bytes that must be readable behind the body (their value does not matter).
inline constexpr std::size_t body_padding = 64;

struct InspectOptions {
  model::PathLabel path = model::PathLabel::other;
  /// The prompt text is rendered up to this many bytes; its characters are counted to the end all the same.
  std::size_t prompt_bytes = 8192;
  bool compat = false;  ///< --compat=kthena refuses what Go refuses (404 prompt not found)
};

struct Inspection {
  std::string model;                     ///< unescaped, untrimmed
  std::vector<http::Span> model_values;  ///< every top-level `model` value with its quotes; all are replaced
  bool stream = false;                   ///< `stream` is JSON true
  /// How to ask the engine for usage (decision 3.4); empty when it must not or need not be asked. When this edit is
  /// applied, the extra usage event is to be removed from the stream.
  std::vector<http::Edit> ask_usage;
  std::string prompt;                       ///< rendered text (decision 4), cut at prompt_bytes
  std::int64_t prompt_tokens_estimate = 0;  ///< ceil(characters/4); token ids: their number
  http::Span tools;                         ///< raw bytes of top-level `tools` on chat, responses and messages
  std::string cache_salt;
  std::vector<MediaDigest> media;  ///< parts that stand within the rendered text
};

struct Refusal {
  ErrorKind kind = ErrorKind::bad_json;
  std::string message;  ///< names what is wrong and where; never prompt text
};

/// \param body the complete (decoded) body, followed by body_padding readable bytes.
/// \return true and fills `out`, or false and fills `refusal`. Both may be reused between calls.
[[nodiscard]] bool inspect(std::string_view body, const InspectOptions& options, Inspection& out, Refusal& refusal);

}  // namespace warmroute::openai
