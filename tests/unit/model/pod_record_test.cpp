#include "model/pod_record.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <thread>
#include <vector>

using namespace warmroute;
using model::InFlightGuard;

namespace {

std::shared_ptr<model::PodRecord> record(std::uint32_t generation) {
  return std::make_shared<model::PodRecord>(PodId{0, generation}, "a-1", "ns", "10.0.0.1");
}

}  // namespace

TEST_CASE("a guard gives back to the incarnation it counted on, once", "[pod_record]") {
  const auto first = record(1), second = record(2);
  InFlightGuard old(first);
  CHECK(first->in_flight() == 1);
  InFlightGuard fresh(second);  // the pod was re-created under the same name meanwhile
  old.release();
  CHECK(first->in_flight() == 0);
  CHECK(second->in_flight() == 1);
  old.release();
  CHECK(first->in_flight() == 0);
  InFlightGuard moved(std::move(fresh));
  fresh.release();  // NOLINT(bugprone-use-after-move): an empty guard
  CHECK(second->in_flight() == 1);
  moved = InFlightGuard(first);
  CHECK(second->in_flight() == 0);
  CHECK(first->in_flight() == 1);
}

TEST_CASE("choosing and counting are one step", "[pod_record]") {
  const auto pod = record(1);
  auto one = InFlightGuard::take_if_unchanged(pod, 0);
  CHECK(one.pod() == pod);
  CHECK_FALSE(InFlightGuard::take_if_unchanged(pod, 0).pod());  // the scheduler saw an older count
  CHECK(pod->in_flight() == 1);
}

TEST_CASE("counts of many threads end at zero", "[pod_record]") {
  const auto pod = record(1);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int n = 0; n < 20000; ++n) {
        const InFlightGuard certain(pod);
        const auto perhaps = InFlightGuard::take_if_unchanged(pod, pod->in_flight());
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(pod->in_flight() == 0);
}
