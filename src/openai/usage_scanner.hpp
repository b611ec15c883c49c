#pragma once
// Watches a copy of the response bytes for token usage, and removes the one event that the router itself asked
// for. The scanner may give up (limits below); the stream may not: bytes that are not removed arrive unchanged and
// in time. Pure: any split of the input gives the same result.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "openai/usage_json.hpp"

namespace warmroute::openai {

enum class BodyKind : std::uint8_t { event_stream, json, opaque };  ///< opaque: encoded or unknown, nothing is read

class UsageScanner {
 public:
  /// \param remove_usage_event the router added include_usage: an event without choices that has usage is dropped,
  /// with its blank line.
  UsageScanner(Protocol protocol, BodyKind kind, bool remove_usage_event);

  /// Takes the next payload bytes and appends to `out` what is to be sent now: views into `chunk` or into held
  /// bytes, valid until the next call. Without remove_usage_event that is always exactly `chunk`. With it, an event is
  /// held back until its end is seen or it exceeds hold_limit.
  /// \param last the body ends with this chunk.
  void feed(std::string_view chunk, std::vector<std::string_view>& out, bool last = false);
  /// The body ended (cleanly or not): appends what is still held.
  void finish(std::vector<std::string_view>& out);

  [[nodiscard]] const Usage& usage() const noexcept { return usage_; }
  /// The terminating event ([DONE], response.completed, message_stop) has passed.
  [[nodiscard]] bool terminated() const noexcept { return terminated_; }
  /// The bytes handed out so far end at an event boundary (or nothing was handed out).
  [[nodiscard]] bool at_event_boundary() const noexcept;

  /// A larger event is passed on unread when events are held back.
  static constexpr std::size_t hold_limit = std::size_t{64} * 1024;
  /// A larger event is not read when nothing is held back; response.completed repeats the whole answer.
  static constexpr std::size_t read_limit = std::size_t{1024} * 1024;

 private:
  void feed_events(std::string_view chunk, std::vector<std::string_view>& out);
  /// [begin, end) completes the event; `ready` is the first byte of the chunk that is not handed out yet.
  void end_event(const char* begin, const char* end, const char*& ready, std::vector<std::string_view>& out);
  void keep_rest(const char* begin, const char* end, const char* ready, std::vector<std::string_view>& out);
  /// \return true: the event is the one that the router asked for.
  [[nodiscard]] bool read_event(std::string_view event);
  [[nodiscard]] std::size_t event_limit() const noexcept { return remove_ ? hold_limit : read_limit; }

  Protocol protocol_;
  BodyKind kind_;
  bool remove_;
  bool terminated_ = false;
  Usage usage_;
  Usage pending_;  ///< responses and messages: becomes usage_ when the answer is complete

  // The event that is arriving
  std::string held_;             ///< its bytes so far, when it began in an earlier chunk
  std::string sent_;             ///< backs the views of the last feed()
  std::size_t event_bytes_ = 0;  ///< handed out or held
  std::size_t event_lines_ = 0;
  bool line_empty_ = true;     ///< nothing of the current line yet
  bool after_cr_ = false;      ///< a LF that follows belongs to the line end before
  bool passed_on_ = false;     ///< parts of it were handed out already (over the limit), so it is not read
  bool last_dropped_ = false;  ///< the event before this one was removed
  bool handed_out_ = false;    ///< anything at all

  JsonUsageCapture capture_;
};

}  // namespace warmroute::openai
