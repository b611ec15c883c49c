#include "base/log.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/sink.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace warmroute::log {
namespace detail {
std::atomic<int> verbosity{0};
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds stop_patience{2};

char letter(spdlog::level::level_enum level) noexcept {
  switch (level) {
    case spdlog::level::warn:
      return 'W';
    case spdlog::level::err:
      return 'E';
    case spdlog::level::critical:
      return 'F';
    default:
      return 'I';
  }
}

spdlog::level::level_enum to_spdlog(Level level) noexcept {
  switch (level) {
    case Level::info:
      return spdlog::level::info;
    case Level::warning:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
    case Level::fatal:
      return spdlog::level::critical;
  }
  return spdlog::level::info;
}

/// klog's header: Lmmdd hh:mm:ss.uuuuuu, process, source. Go prints the source line; we have one source.
void append_header(std::string& out, spdlog::level::level_enum level, std::chrono::system_clock::time_point when) {
  const auto micros = std::chrono::duration_cast<std::chrono::microseconds>(when.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(micros / 1'000'000);
  std::tm local{};
  localtime_r(&seconds, &local);
  fmt::format_to(std::back_inserter(out), "{}{:02}{:02} {:02}:{:02}:{:02}.{:06} {:7} warmroute] ", letter(level),
                 local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec, micros % 1'000'000,
                 ::getpid());
}

void append_record(std::string& out, spdlog::level::level_enum level, std::chrono::system_clock::time_point when,
                   std::string_view message, bool header) {
  while (!message.empty() && message.back() == '\n') message.remove_suffix(1);
  if (header) append_header(out, level, when);
  out += message;
  out += '\n';
}

/// One file descriptor. A record is one write(): at most PIPE_BUF bytes are atomic on a pipe, and poll promises room
/// for just as many, so a longer record goes in pieces there and a reader that is stuck cannot hold us for ever.
class Output {
 public:
  explicit Output(int fd, bool owned = false) : fd_(fd), owned_(owned) {
    struct stat info {};
    in_pieces_ = ::fstat(fd, &info) == 0 && !S_ISREG(info.st_mode);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (owned_) ::close(fd_);
  }

  /// \param give_up asked while waiting. \return false when the record is lost.
  template <class GiveUp>
  bool write(std::string_view bytes, GiveUp give_up) const {
    while (!bytes.empty()) {
      pollfd wait{fd_, POLLOUT, 0};
      const bool last_try = give_up();
      const int ready = ::poll(&wait, 1, last_try ? 0 : 100);
      if (ready == 0 || (ready < 0 && errno == EINTR)) {
        if (last_try) return false;
        continue;
      }
      const std::size_t piece = in_pieces_ ? std::min<std::size_t>(bytes.size(), PIPE_BUF) : bytes.size();
      const ssize_t written = ::write(fd_, bytes.data(), piece);
      if (written < 0) {
        if (errno == EINTR || errno == EAGAIN) continue;
        return false;
      }
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
  }

 private:
  int fd_;
  bool owned_;
  bool in_pieces_ = false;
};

std::atomic<std::uint64_t> failed_writes{0};

/// Runs on the writer thread only.
class KlogSink final : public spdlog::sinks::sink {
 public:
  KlogSink(const Options& options, std::unique_ptr<Output> file) : options_(options), file_(std::move(file)) {}

  /// Before the first record; the pool outlives its thread.
  void watch(spdlog::details::thread_pool* pool) { pool_ = pool; }
  void give_up_at(Clock::time_point when) { give_up_.store(when.time_since_epoch().count()); }

  void log(const spdlog::details::log_msg& message) override {
    report_lost();
    put(message.level, message.time, std::string_view(message.payload.data(), message.payload.size()));
  }
  /// After the writer thread was joined.
  void report_rest(std::size_t lost_in_all) {
    if (lost_in_all > reported_) put_lost(lost_in_all - reported_);
  }
  void flush() override {}
  void set_pattern(const std::string&) override {}
  void set_formatter(std::unique_ptr<spdlog::formatter>) override {}

 private:
  void put(spdlog::level::level_enum level, std::chrono::system_clock::time_point when, std::string_view message) {
    buffer_.clear();
    append_record(buffer_, level, when, message, !options_.skip_headers);
    const auto give_up = [this] {
      const auto limit = give_up_.load();
      return limit != 0 && Clock::now().time_since_epoch().count() > limit;
    };
    bool kept = false;
    if (file_) kept = file_->write(buffer_, give_up);
    if (!file_ || options_.also_to_stderr || level >= to_spdlog(options_.stderr_threshold)) {
      kept = stderr_.write(buffer_, give_up) || kept;
    }
    if (!kept) failed_writes.fetch_add(1, std::memory_order_relaxed);
    if (buffer_.capacity() > 64 * 1024) buffer_ = {};
  }

  void report_lost() {
    if (pool_ == nullptr || Clock::now() < next_report_) return;
    const std::size_t lost_now = pool_->overrun_counter();
    if (lost_now == reported_) return;
    put_lost(lost_now - reported_);
    reported_ = lost_now;
    next_report_ = Clock::now() + std::chrono::seconds(1);
  }

  void put_lost(std::size_t count) {
    put(spdlog::level::warn, std::chrono::system_clock::now(),
        fmt::format("{} log records were lost because the queue was full", count));
  }

  Options options_;
  std::unique_ptr<Output> file_;
  Output stderr_{STDERR_FILENO};
  spdlog::details::thread_pool* pool_ = nullptr;
  std::atomic<Clock::rep> give_up_{0};
  std::string buffer_;
  std::size_t reported_ = 0;
  Clock::time_point next_report_{};
};

struct Backend {
  std::shared_ptr<KlogSink> sink;
  std::shared_ptr<spdlog::details::thread_pool> pool;
  std::shared_ptr<spdlog::async_logger> logger;
};

struct State {
  std::mutex mutex;                  ///< guards `backend` and the synchronous writes; held for a copy or one write
  std::shared_ptr<Backend> backend;  ///< shared with writers, so that stop() can wait for them
  std::uint64_t lost_before = 0;     ///< by backends that were stopped
  bool exit_hook = false;
};

/// Never destroyed: records may come from destructors of other statics.
State& state() {
  static State* const instance = new State;
  return *instance;
}

std::unique_ptr<Output> open_file(const Options& options) {
  if (options.to_stderr || options.file.empty()) return nullptr;
  const int fd = ::open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) return std::make_unique<Output>(fd, true);
  const int code = errno;
  error("cannot open log file {}: {}, logging to stderr", options.file, std::strerror(code));
  return nullptr;
}

void write_now(Level level, std::string_view message) {
  std::string record;
  append_record(record, to_spdlog(level), std::chrono::system_clock::now(), message, true);
  const std::lock_guard lock(state().mutex);
  const auto deadline = Clock::now() + stop_patience;
  if (!Output(STDERR_FILENO).write(record, [&] { return Clock::now() > deadline; })) {
    failed_writes.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

void start(const Options& options) {
  detail::verbosity.store(options.verbosity, std::memory_order_relaxed);
  auto backend = std::make_shared<Backend>();
  backend->sink = std::make_shared<KlogSink>(options, open_file(options));
  backend->pool = std::make_shared<spdlog::details::thread_pool>(std::max<std::size_t>(options.queue_records, 1), 1);
  backend->sink->watch(backend->pool.get());
  backend->logger = std::make_shared<spdlog::async_logger>("warmroute", backend->sink, backend->pool,
                                                           spdlog::async_overflow_policy::overrun_oldest);
  backend->logger->set_level(spdlog::level::info);
  backend->logger->set_error_handler([](const std::string&) { failed_writes.fetch_add(1, std::memory_order_relaxed); });
  stop();
  State& shared = state();
  const std::lock_guard lock(shared.mutex);
  shared.backend = std::move(backend);
  if (!std::exchange(shared.exit_hook, true)) std::atexit([] { stop(); });
}

void stop() {
  State& shared = state();
  std::shared_ptr<Backend> backend;
  {
    const std::lock_guard lock(shared.mutex);
    backend = std::move(shared.backend);
    shared.backend.reset();
  }
  if (!backend) return;
  // Writers hold their copy for one enqueue, which never waits.
  while (backend.use_count() > 1) std::this_thread::sleep_for(std::chrono::microseconds(50));
  const std::shared_ptr<KlogSink> sink = backend->sink;
  sink->give_up_at(Clock::now() + stop_patience);
  // The counter goes with the pool; only the terminating message is still to come, and that one waits for room.
  const std::size_t overrun = backend->pool->overrun_counter();
  backend.reset();  // drains the queue and joins
  sink->report_rest(overrun);
  const std::lock_guard lock(shared.mutex);
  shared.lost_before += overrun;
}

std::uint64_t lost() noexcept {
  State& shared = state();
  std::shared_ptr<Backend> backend;
  std::uint64_t count = failed_writes.load(std::memory_order_relaxed);
  {
    const std::lock_guard lock(shared.mutex);
    backend = shared.backend;
    count += shared.lost_before;
  }
  if (backend) count += backend->pool->overrun_counter();
  return count;
}

void detail::write(Level level, std::string_view message) {
  std::string cut;
  if (message.size() > max_record_bytes) {
    cut.assign(message.substr(0, max_record_bytes));
    cut += "... (cut)";
    message = cut;
  }
  State& shared = state();
  std::shared_ptr<Backend> backend;
  {
    const std::lock_guard lock(shared.mutex);
    backend = shared.backend;
  }
  if (backend) {
    backend->logger->log(to_spdlog(level), spdlog::string_view_t(message.data(), message.size()));
  } else {
    write_now(level, message);
  }
}

}  // namespace warmroute::log
