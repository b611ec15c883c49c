#include "net/worker.hpp"

#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <ctime>
#include <future>
#include <thread>

using namespace std::chrono_literals;
using warmroute::net::Worker;

namespace {

std::chrono::nanoseconds cpu_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void burn(std::chrono::nanoseconds amount) {
  const auto start = cpu_time();
  while (cpu_time() - start < amount) {
  }
}

template <class Step>
void run_on(Worker& worker, Step step) {
  std::promise<void> done;
  boost::asio::post(worker.io(), [&] { step(); });
  boost::asio::post(worker.io(), [&] { done.set_value(); });  // by now the step before has been counted
  done.get_future().wait();
}

}  // namespace

TEST_CASE("a worker that times its steps counts computing, not waiting", "[net][worker]") {
  Worker worker(0);
  worker.start(true);
  run_on(worker, [] { std::this_thread::sleep_for(30ms); });
  CHECK(worker.step_times().slow == 0);
  run_on(worker, [] { burn(3ms); });
  const auto times = worker.step_times();
  CHECK(times.slow == 1);
  CHECK(times.longest >= 3ms);
  CHECK(times.steps >= 3);
  worker.join();
}

TEST_CASE("a worker that was not asked to time its steps counts none", "[net][worker]") {
  Worker worker(0);
  worker.start();
  run_on(worker, [] { burn(2ms); });
  CHECK(worker.step_times().steps == 0);
  CHECK(worker.step_times().longest == 0ns);
  worker.join();
}
