#pragma once
// What a reflector does next, and when: a state machine without I/O, clocks or randomness of its own.

#include <chrono>
#include <cstdint>
#include <optional>

#include "warmroute/result.hpp"

namespace warmroute::kube {

struct BackoffLimits {
  std::chrono::milliseconds first{200}, most{5'000};
};

/// A stream that the peer itself ended was current until then; one that was lost otherwise (the network died, nobody
/// answers) may have been dead since its last word.
[[nodiscard]] constexpr bool ended_by_peer(Errc end) noexcept { return end == Errc::closed || end == Errc::reset; }

class WatchPlan {
 public:
  enum class Do : std::uint8_t { list, watch };
  struct Step {
    Do what = Do::list;
    std::chrono::milliseconds delay{0};
    bool in_pages = true;
  };
  using RetryAfter = std::optional<std::chrono::seconds>;

  explicit WatchPlan(BackoffLimits limits = {}) : limits_(limits) {}

  /// \param jitter in [0, 1): pauses are between half and all of what is due
  Step list_done();
  Step list_failed(int status, RetryAfter retry_after, double jitter);
  /// It is older than what is known.
  Step list_stale(double jitter);
  /// The API server answered the watch with something else than a stream, or an ERROR event came.
  Step watch_refused(int status, RetryAfter retry_after, double jitter);
  /// No answer to the watch, or the stream's end. \param healthy it had lived for a while
  Step watch_ended(bool healthy, double jitter);
  /// The answer to the watch did not come in time, or its stream said nothing for too long.
  Step watch_silent(double jitter);
  /// An event that cannot be read, or lists beside the stream that contradict it: only a list helps.
  Step stream_distrusted(double jitter);
  /// An event or a bookmark told something that was not known.
  void progress() noexcept {
    failures_ = vain_ = 0;
    old_news_ = false;
  }
  /// An event or a bookmark was older than what is known.
  void old_news() noexcept { old_news_ = true; }

  /// Lists that were older than what is known, in a row.
  [[nodiscard]] int stale_lists() const noexcept { return stale_lists_; }
  [[nodiscard]] int failures() const noexcept { return failures_; }

 private:
  [[nodiscard]] std::chrono::milliseconds pause(double jitter, RetryAfter retry_after = std::nullopt);
  /// A watch told nothing new to its end. What is next?
  [[nodiscard]] Do after_vain_watch() noexcept;

  BackoffLimits limits_;
  int failures_ = 0;  ///< in a row
  int stale_lists_ = 0;
  int vain_ = 0;           ///< watches in a row that told nothing new though they had the time
  bool old_news_ = false;  ///< and nothing new since
  bool in_pages_ = true;   ///< false after a `continue` expired: pages would expire again
};

}  // namespace warmroute::kube
