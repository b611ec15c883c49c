#include "net/periodic_thread.hpp"

#include <pthread.h>

#include <utility>

namespace warmroute::net {

PeriodicThread::PeriodicThread(std::chrono::milliseconds period, std::function<void()> job)
    : period_(period), job_(std::move(job)), thread_([this] { run(); }) {}

void PeriodicThread::run() {
  pthread_setname_np(pthread_self(), "background");
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, period_, [this] { return stopping_; })) {
    lock.unlock();
    job_();
    lock.lock();
  }
}

void PeriodicThread::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  job_();
}

}  // namespace warmroute::net
