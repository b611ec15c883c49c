#pragma once
// klog-style logging through spdlog: asynchronous, bounded, never blocks the caller; when the queue is full the
// oldest records are dropped and counted. The only header that includes spdlog (its fmt). Line form:
// `I1130 12:34:56.789012       1 warmroute] message`.

#include <spdlog/fmt/fmt.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace warmroute::log {

enum class Level : std::uint8_t { info, warning, error, fatal };

struct Options {
  int verbosity = 0;                      ///< --v
  bool to_stderr = true;                  ///< klog: everything at INFO and above goes to stderr
  std::string file;                       ///< --log_file, appended to; as in klog without effect while to_stderr is on
  bool also_to_stderr = false;            ///< --alsologtostderr: with a file, everything goes to stderr, too
  Level stderr_threshold = Level::error;  ///< --stderrthreshold: with a file, from here on to stderr, too
  bool skip_headers = false;              ///< --skip_headers: no klog prefix
  std::size_t queue_records = 8192;
};

/// Before other threads start; again only after stop(). Without it records go to stderr synchronously (tests, early
/// errors). A file that cannot be opened is reported on stderr, which then gets everything. A process that exits
/// without stop() runs it by atexit.
void start(const Options& options);
/// Writes what is queued and ends the writer thread; gives a stuck stderr two seconds. Later records go to stderr
/// synchronously. Records of other threads may be written at the same time; none is touched after it is freed.
void stop();

namespace detail {
extern std::atomic<int> verbosity;
void write(Level level, std::string_view message);
}  // namespace detail

[[nodiscard]] inline bool verbose(int level) noexcept {
  return detail::verbosity.load(std::memory_order_relaxed) >= level;
}
/// Records lost since the process started: the queue was full, or the write failed. Also logged, at most once a second.
[[nodiscard]] std::uint64_t lost() noexcept;

/// Longer messages are cut there, with a mark.
inline constexpr std::size_t max_record_bytes = 256 * 1024;

/// One record, also when the message has several lines: they are never interleaved with others.
inline void write(Level level, std::string_view message) { detail::write(level, message); }

template <class... A>
void info(fmt::format_string<A...> format, A&&... args) {
  detail::write(Level::info, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void warning(fmt::format_string<A...> format, A&&... args) {
  detail::write(Level::warning, fmt::format(format, std::forward<A>(args)...));
}
template <class... A>
void error(fmt::format_string<A...> format, A&&... args) {
  detail::write(Level::error, fmt::format(format, std::forward<A>(args)...));
}
/// Logged at info when --v is at least `level`.
template <class... A>
void v(int level, fmt::format_string<A...> format, A&&... args) {
  if (verbose(level)) detail::write(Level::info, fmt::format(format, std::forward<A>(args)...));
}

}  // namespace warmroute::log
