#pragma once
// One data-path thread: its io_context, coroutines, deadlines and scratch buffer. A connection lives on one worker.

#include <array>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>

#include "net/deadline.hpp"
#include "net/task_group.hpp"

namespace warmroute::net {

class Worker {
 public:
  explicit Worker(unsigned index);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// With `time_steps`, the CPU time of each step of the loop is taken (step_times()), at about a microsecond a step.
  void start(bool time_steps = false);
  /// Lets run() return once its work is done, and joins. Call after the coroutines have ended or were cancelled.
  void join();

  [[nodiscard]] unsigned index() const noexcept { return index_; }
  [[nodiscard]] io_context& io() noexcept { return io_; }
  [[nodiscard]] DeadlineSet& deadlines() noexcept { return deadlines_; }
  [[nodiscard]] TaskGroup& tasks() noexcept { return tasks_; }
  /// Lets what else is due on this worker go first: between pieces of work that together would hold it up for long.
  [[nodiscard]] Task<> give_way();
  /// For one read between two suspensions; never across a co_await.
  [[nodiscard]] std::span<char> scratch() noexcept { return {scratch_.get(), scratch_bytes}; }

  /// CPU time of the loop's steps: a handler with the poll that found it. Waiting, and the time other processes had
  /// the processor, do not count. All 0 unless start() was asked for it.
  struct StepTimes {
    std::uint64_t steps = 0;
    std::uint64_t slow = 0;  ///< above slow_step
    std::chrono::nanoseconds longest{0};
  };
  static constexpr std::chrono::milliseconds slow_step{1};
  [[nodiscard]] StepTimes step_times() const noexcept;

  /// Connections of this worker, for the acceptor's choice.
  std::atomic<std::size_t> connections{0};

  static constexpr std::size_t scratch_bytes = 64 * 1024;
  /// Of the work that goes by the byte (copying, parsing), about as much as 100 us allow. More in one go: give_way().
  static constexpr std::size_t step_bytes = 128 * 1024;

 private:
  void run_timed();

  unsigned index_;
  io_context io_{1};
  std::optional<boost::asio::executor_work_guard<Executor>> work_;
  DeadlineSet deadlines_{io_};
  std::unique_ptr<char[]> scratch_;
  TaskGroup tasks_{io_};  // last: coroutines die before what they use
  std::thread thread_;
  std::atomic<bool> ended_{false};
  std::atomic<std::uint64_t> steps_{0};
  std::atomic<std::uint64_t> slow_steps_{0};
  std::atomic<std::int64_t> longest_step_ns_{0};
};

}  // namespace warmroute::net
