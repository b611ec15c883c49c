#pragma once
// What a plugin may see of a request. All views die with the call.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace warmroute {

/// An image, audio clip or other non-text part: `digest` of its URL or bytes, and the offset in the prompt
/// text (bytes) at which it stands.
struct MediaDigest {
  std::size_t text_offset = 0;
  std::uint64_t digest = 0;
};

struct RequestView {
  std::string_view model;  ///< as the client wrote it: base model or LoRA adapter; always a configured name
  /// The prompt's text as the scheduler sees it, cut at the largest Plugin::prompt_bytes_wanted().
  std::string_view prompt;
  std::int64_t token_estimate = 0;  ///< of the whole prompt: ceil(characters / 4), or the number of token ids
  std::string_view tools;           ///< raw bytes of the top-level `tools` member, may be empty
  std::string_view cache_salt;      ///< top-level `cache_salt`, may be empty
  std::span<const MediaDigest> media;
  /// Equal in two calls only when the pods given to score() are the same in the same order; 0: unknown.
  std::uint64_t pods_version = 0;
};

/// How one attempt on one pod ended.
struct Outcome {
  enum class End : std::uint8_t { complete, failed_before_first_byte, cut, client_left };
  End end = End::complete;
  int status = 0;                   ///< of the engine's answer; 0 when no response head arrived
  std::int64_t prompt_tokens = -1;  ///< from the engine's usage; -1: not reported
  std::int64_t cached_tokens = -1;  ///< usage.prompt_tokens_details.cached_tokens; -1: not reported

  /// Decision 3.8: only a 2xx answer that was complete to its end is worth remembering.
  [[nodiscard]] bool served() const noexcept { return end == End::complete && status >= 200 && status < 300; }
};

}  // namespace warmroute
