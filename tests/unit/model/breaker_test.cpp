#include "model/breaker.hpp"

#include <catch2/catch.hpp>
#include <optional>
#include <thread>
#include <vector>

namespace warmroute::model {
namespace {

using State = Breaker::State;
using std::chrono::milliseconds;

struct Pod {
  Breaker breaker;
  BreakerPolicy policy{3, milliseconds(1000), milliseconds(8000), 2, milliseconds(4000)};
  Breaker::Clock::time_point now{std::chrono::hours(5)};

  std::optional<Breaker::Ticket> enter(bool forced = false) {
    std::optional<State> changed;
    return breaker.enter(policy, now, forced, changed);
  }
  Breaker::Ticket must_enter(bool forced = false) {
    const auto ticket = enter(forced);
    REQUIRE(ticket.has_value());
    return *ticket;
  }
  /// Jitter of nothing: 200 of 0..400 per mille above four fifths.
  std::optional<State> fail(Breaker::Ticket ticket) { return breaker.failed(policy, now, 200, ticket); }
  void fail_once() { (void)fail(must_enter()); }
  void open() {
    for (int i = 0; i < 3; ++i) fail_once();
    REQUIRE(state() == State::open);
  }
  void good(Breaker::Ticket ticket) {
    (void)breaker.head_good(policy, now, ticket);
    (void)breaker.complete(policy, now, ticket);
  }
  void pass(int length) { now += milliseconds(length); }
  /// `drawn`: of the 400 hundredths of a second that the ramp takes.
  [[nodiscard]] bool admits(int drawn = 0) const { return breaker.admits(policy, now, drawn / 400.0); }
  [[nodiscard]] State state() const { return breaker.state(policy, now); }
};

TEST_CASE("breaker: failures in a row open it, a complete answer between them starts the count anew") {
  Pod pod;
  pod.fail_once();
  pod.fail_once();
  pod.good(pod.must_enter());
  pod.fail_once();
  pod.fail_once();
  CHECK(pod.state() == State::closed);
  CHECK(pod.fail(pod.must_enter()) == State::open);
  CHECK(!pod.admits());
  CHECK(!pod.enter());
}

TEST_CASE("breaker: what is neither good nor bad changes nothing") {
  Pod pod;
  pod.fail_once();
  pod.fail_once();
  for (int i = 0; i < 10; ++i) {
    auto ticket = pod.must_enter();
    pod.breaker.leave(ticket);
  }
  CHECK(pod.state() == State::closed);
  CHECK(pod.fail(pod.must_enter()) == State::open);
}

TEST_CASE("breaker: a good head alone does not forgive, so that a pod that cuts every stream is found") {
  Pod pod;
  for (int i = 0; i < 3; ++i) {
    auto ticket = pod.must_enter();
    CHECK(!pod.breaker.head_good(pod.policy, pod.now, ticket));
    (void)pod.fail(ticket);
  }
  CHECK(pod.state() == State::open);
}

TEST_CASE("breaker: after the open time a few probes, then a growing share, then all") {
  Pod pod;
  pod.open();
  pod.pass(990);
  CHECK(!pod.admits());
  pod.pass(20);
  CHECK(pod.admits());
  CHECK(pod.state() == State::open);  // until somebody comes
  auto first = pod.must_enter(), second = pod.must_enter();
  CHECK(pod.state() == State::half_open);
  CHECK((first.probe && second.probe));
  CHECK(!pod.admits());
  CHECK(!pod.enter());
  pod.good(first);
  CHECK(pod.state() == State::half_open);
  CHECK(pod.admits());
  pod.good(second);
  CHECK(pod.state() == State::ramping);
  // The share is the passed part of the ramp, a tenth at least.
  CHECK(pod.admits(39));
  CHECK(!pod.admits(41));
  pod.pass(-50);  // a thread whose clock reading is older than the ramp
  CHECK(!pod.admits(41));
  CHECK(pod.state() == State::ramping);
  pod.pass(50);
  pod.pass(2000);
  CHECK(pod.admits(199));
  CHECK(!pod.admits(201));
  pod.pass(2000);
  CHECK(pod.admits(399));
  CHECK(pod.state() == State::closed);
  std::optional<State> changed;
  CHECK(pod.breaker.enter(pod.policy, pod.now, false, changed).has_value());
  CHECK(changed == State::closed);
}

TEST_CASE("breaker: a failing probe and a failure in the ramp double the open time, up to its limit") {
  Pod pod;
  pod.open();
  for (const int length : {1000, 2000, 4000, 8000, 8000, 8000}) {
    CAPTURE(length);
    pod.pass(length - 20);
    CHECK(!pod.admits());
    pod.pass(30);
    const auto probe = pod.must_enter();
    CHECK(pod.fail(probe) == State::open);
  }
  pod.pass(8010);
  pod.good(pod.must_enter());
  pod.good(pod.must_enter());
  CHECK(pod.state() == State::ramping);
  pod.pass(1000);
  CHECK(pod.fail(pod.must_enter()) == State::open);
  pod.pass(7980);
  CHECK(!pod.admits());
  // Once it was closed, it starts from the beginning.
  pod.pass(30);
  pod.good(pod.must_enter());
  pod.good(pod.must_enter());
  pod.pass(4000);
  pod.good(pod.must_enter());
  pod.open();
  pod.pass(1010);
  CHECK(pod.admits());
}

TEST_CASE("breaker: jitter is a fifth of the open time in both directions") {
  for (const auto& [random, length] : {std::pair(0U, 800), std::pair(400U, 1200), std::pair(401U, 800)}) {
    Pod pod;
    for (int i = 0; i < 3; ++i) {
      auto ticket = pod.must_enter();
      (void)pod.breaker.failed(pod.policy, pod.now, random, ticket);
    }
    pod.pass(length - 20);
    CHECK(!pod.admits());
    pod.pass(30);
    CHECK(pod.admits());
  }
}

TEST_CASE("breaker: results of requests that began before it opened do not count") {
  Pod pod;
  const auto early = pod.must_enter();
  pod.open();
  CHECK(!pod.fail(early));
  pod.pass(1010);
  const auto probe = pod.must_enter();
  CHECK(!pod.fail(early));
  pod.good(early);
  CHECK(pod.state() == State::half_open);
  pod.good(probe);
  pod.good(pod.must_enter());
  CHECK(pod.state() == State::ramping);
  CHECK(!pod.fail(early));
  CHECK(pod.state() == State::ramping);
}

TEST_CASE("breaker: a probe that was neither good nor bad gives its place back, once") {
  Pod pod;
  pod.open();
  pod.pass(1010);
  auto first = pod.must_enter(), second = pod.must_enter();
  CHECK(!pod.admits());
  pod.breaker.leave(first);
  pod.breaker.leave(first);
  CHECK(pod.must_enter().probe);
  CHECK(!pod.enter());
  pod.breaker.leave(second);
  CHECK(pod.enter().has_value());
}

TEST_CASE("breaker: a request that is sent because no pod is left proves an open one alive, and cannot harm it") {
  Pod pod;
  pod.open();
  CHECK(!pod.fail(pod.must_enter(true)));
  pod.pass(1010);
  CHECK(pod.admits());  // the failure did not make it longer
  Pod other;
  other.open();
  auto forced = other.must_enter(true);
  CHECK(!forced.probe);
  CHECK(other.breaker.head_good(other.policy, other.now, forced) == State::ramping);
}

TEST_CASE("breaker: workers that use it at once lose no probe's place") {
  Pod pod;
  pod.policy = {1, milliseconds(10), milliseconds(10), 3, milliseconds(10)};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&pod, t] {
      auto now = pod.now;
      for (int i = 0; i < 20000; ++i) {
        now += milliseconds(10);
        std::optional<State> changed;
        auto ticket = pod.breaker.enter(pod.policy, now, false, changed);
        if (!ticket) continue;
        if ((i + t) % 3 == 0) (void)pod.breaker.failed(pod.policy, now, 200, *ticket);
        if ((i + t) % 3 == 1) (void)pod.breaker.head_good(pod.policy, now, *ticket);
        pod.breaker.leave(*ticket);
      }
    });
  for (auto& thread : threads) thread.join();
  // Whatever happened, it comes back: three good probes and the ramp.
  pod.now += std::chrono::hours(1);
  for (int i = 0; i < 6; ++i)
    if (const auto ticket = pod.enter()) pod.good(*ticket);
  pod.pass(1000);
  CHECK(pod.state() == State::closed);
}

}  // namespace
}  // namespace warmroute::model
