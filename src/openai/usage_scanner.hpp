#pragma once
// Watches a copy of the response bytes for token usage, and removes the one event that the router itself asked
// for. The scanner may give up (limits below); the stream may not: bytes that are not removed arrive unchanged and
// in time. Pure: any split of the input gives the same result.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace warmroute::openai {

enum class Protocol : std::uint8_t { openai, responses, anthropic };
enum class BodyKind : std::uint8_t { event_stream, json, opaque };  ///< opaque: encoded or unknown, nothing is read

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0, total_tokens = 0;
  std::int64_t cached_tokens = -1;  ///< prompt_tokens_details.cached_tokens; -1: not reported
  bool seen = false;
};

class UsageScanner {
 public:
  /// \param remove_usage_event the router added include_usage: an event without choices that has usage is dropped,
  /// with its blank line.
  UsageScanner(Protocol protocol, BodyKind kind, bool remove_usage_event);

  /// Takes the next payload bytes and appends to `out` what is to be sent now: views into `chunk` or into held
  /// bytes, valid until the next call. Without remove_usage_event that is always exactly `chunk`. With it, an event is
  /// held back until its end is seen or it exceeds hold_limit.
  void feed(std::string_view chunk, std::vector<std::string_view>& out);
  /// The body ended (cleanly or not): appends what is still held.
  void finish(std::vector<std::string_view>& out);

  [[nodiscard]] const Usage& usage() const noexcept { return usage_; }
  /// The terminating event ([DONE], response.completed, message_stop) has passed.
  [[nodiscard]] bool terminated() const noexcept { return terminated_; }
  /// The bytes handed out so far end at an event boundary (or nothing was handed out).
  [[nodiscard]] bool at_event_boundary() const noexcept;

  static constexpr std::size_t hold_limit = 64 * 1024;

 private:
  Usage usage_;
  bool terminated_ = false;
  // owner of this module fills in the rest
};

}  // namespace warmroute::openai
