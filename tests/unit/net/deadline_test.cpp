#include "net/deadline.hpp"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

using namespace warmroute;
using namespace std::chrono_literals;

namespace {

struct Probe {
  explicit Probe(net::DeadlineSet& set)
      : deadline(
            set,
            [](void* self) {
              auto& probe = *static_cast<Probe*>(self);
              ++probe.fired;
              probe.when = net::Clock::now();
            },
            this) {}
  net::Deadline deadline;
  int fired = 0;
  net::Clock::time_point when;
};

}  // namespace

TEST_CASE("a deadline fires once, not early, at most 250 ms late", "[net][deadline]") {
  net::io_context io{1};
  net::DeadlineSet set(io);
  Probe probe(set);
  const auto at = net::coarse_now() + 150ms;
  probe.deadline.set(at);
  io.run_for(2s);
  CHECK(probe.fired == 1);
  CHECK(probe.when >= at);
}

TEST_CASE("moving, clearing and destroying deadlines", "[net][deadline]") {
  net::io_context io{1};
  net::DeadlineSet set(io);
  Probe moved_later(set), moved_earlier(set), cleared(set);
  auto destroyed = std::make_unique<Probe>(set);
  const auto start = net::coarse_now();
  moved_later.deadline.set(start + 50ms);
  moved_later.deadline.set(start + 400ms);
  moved_earlier.deadline.set(start + 60min);
  moved_earlier.deadline.set(start + 50ms);
  cleared.deadline.set(start + 50ms);
  cleared.deadline.clear();
  destroyed->deadline.set(start + 50ms);
  destroyed.reset();
  io.run_for(1500ms);
  CHECK(moved_later.fired == 1);
  CHECK(moved_later.when >= start + 400ms);
  CHECK(moved_earlier.fired == 1);
  CHECK(moved_earlier.when < moved_later.when);
  CHECK(cleared.fired == 0);
}

TEST_CASE("a deadline beyond one turn of the wheel waits its time", "[net][deadline]") {
  net::io_context io{1};
  net::DeadlineSet set(io);
  Probe far(set);
  far.deadline.set(net::coarse_now() + 10min);
  io.run_for(300ms);
  CHECK(far.fired == 0);
}

TEST_CASE("late handlers may destroy other deadlines of the same slot", "[net][deadline]") {
  net::io_context io{1};
  net::DeadlineSet set(io);
  struct Killer {
    explicit Killer(net::DeadlineSet& set)
        : deadline(
              set,
              [](void* self) {
                auto& killer = *static_cast<Killer*>(self);
                ++killer.fired;
                killer.victim.reset();
              },
              this) {}
    net::Deadline deadline;
    std::unique_ptr<Killer> victim;
    int fired = 0;
  };
  Killer first(set), second(set);
  const auto at = net::coarse_now() + 50ms;
  first.victim = std::make_unique<Killer>(set);
  second.victim = std::make_unique<Killer>(set);
  first.deadline.set(at);
  first.victim->deadline.set(at);
  second.deadline.set(at);
  second.victim->deadline.set(at);
  io.run_for(1s);
  CHECK(first.fired == 1);
  CHECK(second.fired == 1);
}

TEST_CASE("an idle set has no timer", "[net][deadline]") {
  net::io_context io{1};
  net::DeadlineSet set(io);
  Probe probe(set);
  probe.deadline.set(net::coarse_now() + 50ms);
  io.run();  // returns: after the deadline nothing is armed
  CHECK(probe.fired == 1);
}
