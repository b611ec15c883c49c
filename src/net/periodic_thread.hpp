#pragma once
// A job that may wait for files, on a thread of its own: each period, and a last time at stop().

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace warmroute::net {

class PeriodicThread {
 public:
  /// The job must not throw.
  PeriodicThread(std::chrono::milliseconds period, std::function<void()> job);
  ~PeriodicThread() { stop(); }
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

  /// Waits for a run under way, runs the job once more, joins. The second time nothing happens.
  void stop();

 private:
  void run();

  const std::chrono::milliseconds period_;
  const std::function<void()> job_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace warmroute::net
