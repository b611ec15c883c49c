#include "net/periodic_thread.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

namespace warmroute::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a periodic job runs again and again, and a last time at the end") {
  std::atomic<int> runs{0};
  net::PeriodicThread thread(1ms, [&runs] { ++runs; });
  for (int i = 0; i < 5000 && runs < 3; ++i) std::this_thread::sleep_for(1ms);
  CHECK(runs >= 3);
  thread.stop();
  const int stopped = runs;
  thread.stop();
  std::this_thread::sleep_for(20ms);
  CHECK(runs == stopped);
}

TEST_CASE("a periodic thread ends at once and still runs its job once") {
  std::atomic<int> runs{0};
  const auto from = std::chrono::steady_clock::now();
  {
    const net::PeriodicThread thread(1h, [&runs] { ++runs; });
  }
  CHECK(runs == 1);
  CHECK(std::chrono::steady_clock::now() - from < 10s);
}

}  // namespace
}  // namespace warmroute::test
