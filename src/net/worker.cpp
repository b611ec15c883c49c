#include "net/worker.hpp"

#include <pthread.h>

#include <ctime>

#include <boost/asio/post.hpp>

#include <string>

namespace warmroute::net {

Worker::Worker(unsigned index) : index_(index), scratch_(new char[scratch_bytes]) { work_.emplace(io_.get_executor()); }

Worker::~Worker() { join(); }

void Worker::start(bool time_steps) {
  thread_ = std::thread([this, time_steps] {
    const auto name = "worker-" + std::to_string(index_);
    pthread_setname_np(pthread_self(), name.c_str());
    if (time_steps) {
      run_timed();
    } else {
      io_.run();
    }
    ended_.store(true);
  });
}

void Worker::run_timed() {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  auto before = now();
  while (io_.run_one() > 0) {
    const auto after = now();
    const auto took = after - before;
    before = after;
    steps_.fetch_add(1, std::memory_order_relaxed);
    if (took > slow_step) slow_steps_.fetch_add(1, std::memory_order_relaxed);
    if (took.count() > longest_step_ns_.load(std::memory_order_relaxed))
      longest_step_ns_.store(took.count(), std::memory_order_relaxed);
  }
}

Task<> Worker::give_way() { return boost::asio::post(io_.get_executor(), use_task); }

Worker::StepTimes Worker::step_times() const noexcept {
  return {steps_.load(std::memory_order_relaxed), slow_steps_.load(std::memory_order_relaxed),
          std::chrono::nanoseconds(longest_step_ns_.load(std::memory_order_relaxed))};
}

void Worker::join() {
  if (!thread_.joinable()) return;
  boost::asio::post(io_, [this] { deadlines_.stop(); });
  work_.reset();
  // Everything has ended by now, or is about to; a wait that nobody ended must not keep the process.
  for (int i = 0; i < 200 && !ended_.load(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  io_.stop();
  thread_.join();
}

}  // namespace warmroute::net
