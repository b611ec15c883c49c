#include "model/pod_record.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace warmroute::model {
namespace {

TEST_CASE("in-flight guards of many threads never exceed the limit and leave nothing behind") {
  const auto pod = std::make_shared<PodRecord>(PodId{0, 1}, "a", "ns", "127.0.0.1");
  constexpr std::int64_t limit = 3;
  std::atomic<bool> exceeded{false};
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20000; ++i) {
        const auto seen = pod->in_flight();
        const bool unchanged = (i + t) % 2 == 0 && seen < limit;
        const auto guard =
            unchanged ? InFlightGuard::take_if_unchanged(pod, seen) : InFlightGuard::take_below(pod, limit);
        if (guard.pod()) ++taken;
        if (pod->in_flight() > limit) exceeded = true;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(!exceeded);
  CHECK(taken > 0);
  CHECK(pod->in_flight() == 0);
}

TEST_CASE("a freed slot is reported while somebody wants the pod, and only then") {
  struct Counter final : SlotWaiters {
    int freed = 0;
    void slot_freed(const PodRecord&) noexcept override { ++freed; }
  } waiters;
  const auto pod = std::make_shared<PodRecord>(PodId{0, 1}, "a", "ns", "127.0.0.1");
  InFlightGuard(pod).release();
  CHECK(waiters.freed == 0);
  pod->want(waiters);
  InFlightGuard(pod).release();
  { const InFlightGuard guard(pod); }
  CHECK(waiters.freed == 2);
  pod->unwant();
  InFlightGuard(pod).release();
  CHECK(waiters.freed == 2);
}

}  // namespace
}  // namespace warmroute::model
