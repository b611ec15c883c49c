#include "metrics/access_log.hpp"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <thread>

#include "base/log.hpp"
#include "metrics/line_writer.hpp"

namespace warmroute::metrics {
namespace {

using namespace std::chrono_literals;

/// Lines wait this long for company before they are written.
constexpr auto batch_time = 50ms;
/// A batch of this size is written at once.
constexpr std::size_t batch_bytes = 256U << 10U;
/// How long the end of the process waits for a reader that takes nothing.
constexpr auto farewell_time = 2s;

class NoLog final : public AccessLog {
 public:
  void write(const model::RequestRecord&) override {}
  [[nodiscard]] std::uint64_t lost() const noexcept override { return 0; }
  void reopen() override {}
  void flush() override {}
};

/// Two buffers: workers append to `filling_` under a short lock, the thread writes the other one without it.
class BufferedLog final : public AccessLog {
 public:
  BufferedLog(LineWriter writer, const AccessLogOptions& options)
      : writer_(std::move(writer)), json_(options.json), limit_bytes_(options.buffer_bytes) {
    // Signals are for the control thread; SIGPIPE would end the process when the log's reader is gone.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  ~BufferedLog() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      give_up_at_.store((std::chrono::steady_clock::now() + farewell_time).time_since_epoch().count());
    }
    wake_.notify_one();
    thread_.join();
  }

  void write(const model::RequestRecord& record) override {
    thread_local std::string line;
    line.clear();
    if (json_)
      format_access_json(record, line);
    else
      format_access_text(record, line);
    line += '\n';
    bool wake = false;
    {
      const std::lock_guard lock(mutex_);
      const std::size_t before = filling_.size();
      if (before + line.size() > limit_bytes_) {
        lost_.fetch_add(1, std::memory_order_relaxed);
        return;
      }
      filling_ += line;
      wake = before == 0 || (before < batch_bytes && filling_.size() >= batch_bytes);
    }
    if (wake) wake_.notify_one();
  }

  [[nodiscard]] std::uint64_t lost() const noexcept override { return lost_.load(std::memory_order_relaxed); }

  void reopen() override {
    {
      const std::lock_guard lock(mutex_);
      reopen_wanted_ = true;
    }
    wake_.notify_one();
  }

  void flush() override {
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = ++flush_wanted_;
    wake_.notify_one();
    flushed_.wait(lock, [&] { return flush_done_ >= ticket; });
  }

 private:
  [[nodiscard]] bool urgent() const noexcept {
    return stopping_ || reopen_wanted_ || flush_wanted_ != flush_done_ || filling_.size() >= batch_bytes;
  }

  void run() {
    ::pthread_setname_np(::pthread_self(), "access-log");
    std::string writing;
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return urgent() || !filling_.empty(); });
      if (!urgent()) wake_.wait_for(lock, batch_time, [&] { return urgent(); });
      const std::uint64_t ticket = flush_wanted_;
      const bool reopen_now = std::exchange(reopen_wanted_, false);
      const bool last = stopping_;
      writing.swap(filling_);
      lock.unlock();
      // What is buffered was logged before the rotation, so it belongs to the old file.
      if (!writing.empty()) lost_.fetch_add(writer_.write(writing, [this] { return too_late(); }));
      writing.clear();
      if (writing.capacity() > 4 * batch_bytes) writing.shrink_to_fit();  // the memory of a stall
      if (reopen_now) {
        if (const auto done = writer_.reopen(); !done) log::error("{}", done.error().detail);
      }
      lock.lock();
      flush_done_ = ticket;
      flushed_.notify_all();
      if (last) return;
    }
  }

  [[nodiscard]] bool too_late() const noexcept {
    return std::chrono::steady_clock::now().time_since_epoch().count() >= give_up_at_.load();
  }

  LineWriter writer_;  ///< the thread's own
  const bool json_;
  const std::size_t limit_bytes_;
  std::atomic<std::uint64_t> lost_{0};
  std::atomic<std::chrono::steady_clock::rep> give_up_at_{
      std::chrono::steady_clock::time_point::max().time_since_epoch().count()};
  std::mutex mutex_;  ///< all below but the thread
  std::condition_variable wake_, flushed_;
  std::string filling_;
  std::uint64_t flush_wanted_ = 0, flush_done_ = 0;
  bool reopen_wanted_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<AccessLog>> AccessLog::create(const AccessLogOptions& options) {
  if (!options.enabled) return std::unique_ptr<AccessLog>(std::make_unique<NoLog>());
  auto writer = LineWriter::open(options.output);
  if (!writer) {
    Error error = writer.error();
    error.detail.insert(0, "failed to create access logger: ");
    return error;
  }
  return std::unique_ptr<AccessLog>(std::make_unique<BufferedLog>(std::move(*writer), options));
}

}  // namespace warmroute::metrics
