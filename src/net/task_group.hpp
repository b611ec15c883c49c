#pragma once
// The one way to start a coroutine: counted, cancellable, and somebody hears how it ended. One per thread, no lock.

#include <boost/asio/cancellation_signal.hpp>
#include <exception>
#include <list>
#include <string_view>

#include "net/task.hpp"

namespace warmroute::net {

class TaskGroup {
 public:
  explicit TaskGroup(io_context& io);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  /// False once close() was called: the caller refuses the work instead. `what` must be a literal.
  bool spawn(std::string_view what, Task<> task);
  void close() noexcept { closed_ = true; }
  void cancel_all();
  [[nodiscard]] std::size_t running() const noexcept { return running_.size(); }
  /// True when nothing runs any more; false when `until` came first.
  Task<bool> wait_idle(Clock::time_point until);

 private:
  io_context& io_;
  Timer idle_;
  std::list<boost::asio::cancellation_signal> running_;
  bool closed_ = false;
};

}  // namespace warmroute::net
