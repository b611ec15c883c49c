#include "status/lease.hpp"

#include <catch2/catch.hpp>

#include "net/task_group.hpp"
#include "support/fake_cluster.hpp"
#include "support/run_coro.hpp"

using namespace warmroute;
using namespace warmroute::status;
using namespace std::chrono_literals;

namespace {

struct Replica {
  Replica(net::io_context& io, test::FakeCluster& cluster, const std::string& identity)
      : lease(io, cluster.api(), options(identity),
              {[this] { return Moment(std::chrono::microseconds(++clock)); },
               [this](bool leads) { changes += leads ? "+" : "-"; }}) {}
  static LeaseOptions options(const std::string& identity) {
    LeaseOptions options;
    options.ns = "ns";
    options.identity = identity;
    options.duration = 1s;
    options.believe = 600ms;
    options.renew = 50ms;
    options.retry = 20ms;
    options.forbidden_retry = 100ms;
    return options;
  }
  std::int64_t clock = 0;
  std::string changes;
  Lease lease;
};

struct World {
  net::io_context io;
  net::TaskGroup tasks{io};
  test::FakeCluster cluster{io};
  bool wait(const std::function<bool()>& reached, std::chrono::milliseconds limit = 5s) {
    return test::run_until(io, reached, limit);
  }
};

}  // namespace

TEST_CASE("One of two replicas leads; the other follows when it goes", "[lease]") {
  World world;
  Replica first(world.io, world.cluster, "a"), second(world.io, world.cluster, "b");
  world.tasks.spawn("lease", first.lease.run());
  REQUIRE(world.wait([&] { return first.lease.leads(); }));
  world.tasks.spawn("lease", second.lease.run());
  CHECK_FALSE(world.wait([&] { return second.lease.leads() || !first.lease.leads(); }, 1500ms));
  CHECK(world.cluster.lease->holder == "a");
  CHECK(world.cluster.lease->transitions == 0);

  SECTION("given back: at once") {
    world.tasks.spawn("release", first.lease.release());
    const auto start = net::Clock::now();
    REQUIRE(world.wait([&] { return second.lease.leads(); }));
    CHECK(net::Clock::now() - start < 800ms);
    CHECK(first.changes == "+-");
  }
  SECTION("gone without a word: when its time is up") {
    first.lease.stop();
    const auto start = net::Clock::now();
    REQUIRE(world.wait([&] { return second.lease.leads(); }));
    CHECK(net::Clock::now() - start > 700ms);
  }
  CHECK(world.cluster.lease->holder == "b");
  CHECK(world.cluster.lease->transitions == 1);
  CHECK(second.changes == "+");
}

TEST_CASE("Every request for the Lease is urgent, that which gives it back too", "[lease]") {
  World world;
  std::vector<std::string> hurried;
  const kube::Api api = [&, asks = world.cluster.api()](kube::Request request) {
    if (request.urgent) hurried.push_back(request.method + " " + request.path);
    return asks(std::move(request));
  };
  Lease lease(world.io, api, Replica::options("a"), {[] { return Moment(std::chrono::microseconds(1)); }, nullptr});
  world.tasks.spawn("lease", lease.run());
  REQUIRE(world.wait([&] { return world.cluster.count("PATCH") >= 1; }));
  world.tasks.spawn("release", lease.release());
  REQUIRE(world.wait([&] { return world.tasks.running() == 0; }));
  CHECK(world.cluster.asked.size() >= 4);  // GET, POST, PATCH; PATCH
  CHECK(hurried == world.cluster.asked);
}

TEST_CASE("A leader that cannot reach the API server stops believing before others may take over", "[lease]") {
  World world;
  Replica replica(world.io, world.cluster, "a");
  world.tasks.spawn("lease", replica.lease.run());
  REQUIRE(world.wait([&] { return replica.lease.leads(); }));
  world.cluster.refuse["PATCH leases"] = 0;
  const auto start = net::Clock::now();
  REQUIRE(world.wait([&] { return !replica.lease.leads(); }));
  CHECK(net::Clock::now() - start < 1s);
  REQUIRE(world.wait([&] { return replica.changes == "+-"; }));
  world.cluster.refuse.clear();
  REQUIRE(world.wait([&] { return replica.lease.leads(); }));
  CHECK(replica.changes == "+-+");
}

TEST_CASE("Somebody else's write in between is a conflict, not a loss", "[lease]") {
  World world;
  Replica replica(world.io, world.cluster, "a");
  world.tasks.spawn("lease", replica.lease.run());
  REQUIRE(world.wait([&] { return replica.lease.leads(); }));
  world.cluster.lease->resource_version = "labelled";
  const auto before = world.cluster.count("GET");
  REQUIRE(world.wait([&] { return world.cluster.count("GET") > before; }));
  CHECK_FALSE(world.wait([&] { return !replica.lease.leads(); }, 300ms));
  CHECK(world.cluster.lease->transitions == 0);
  world.cluster.lease.reset();  // deleted by somebody
  REQUIRE(world.wait([&] { return world.cluster.lease.has_value(); }));
  CHECK(world.cluster.lease->holder == "a");
}

TEST_CASE("Without the right to Leases nobody leads, and it is asked again later", "[lease]") {
  World world;
  world.cluster.refuse["GET leases"] = 403;
  Replica replica(world.io, world.cluster, "a");
  world.tasks.spawn("lease", replica.lease.run());
  CHECK_FALSE(world.wait([&] { return replica.lease.leads(); }, 250ms));
  CHECK(world.cluster.asked.size() <= 4);
  world.cluster.refuse.clear();
  CHECK(world.wait([&] { return replica.lease.leads(); }));
}

TEST_CASE("A namespace that is not there is a failure, not a race", "[lease]") {
  World world;
  world.cluster.refuse["POST leases"] = 404;
  auto options = Replica::options("a");
  options.retry = 500ms;  // a race that was lost is tried again after 200 ms
  Lease lease(world.io, world.cluster.api(), options, {[] { return Moment(); }, nullptr});
  world.tasks.spawn("lease", lease.run());
  CHECK_FALSE(world.wait([&] { return world.cluster.count("POST") > 1; }, 350ms));
  CHECK(world.cluster.count("POST") == 1);
  world.cluster.refuse.clear();
  CHECK(world.wait([&] { return lease.leads(); }));
}

TEST_CASE("Belief that runs out between two renewals and returns is told", "[lease]") {
  World world;
  auto options = Replica::options("a");
  options.believe = 30ms;  // shorter than the time between two renewals, as it is when the loop is held up
  options.renew = 200ms;
  std::string changes;
  Lease lease(world.io, world.cluster.api(), options,
              {[] { return Moment(); }, [&](bool leads) { changes += leads ? "+" : "-"; }});
  world.tasks.spawn("lease", lease.run());
  REQUIRE(world.wait([&] { return world.cluster.count("PATCH") >= 2 && lease.leads(); }));
  CHECK(changes.rfind("+-+", 0) == 0);
}

TEST_CASE("Two that see no Lease at the same moment agree", "[lease]") {
  World world;
  Replica first(world.io, world.cluster, "a"), second(world.io, world.cluster, "b");
  world.tasks.spawn("lease", first.lease.run());
  world.tasks.spawn("lease", second.lease.run());
  REQUIRE(world.wait([&] { return first.lease.leads() || second.lease.leads(); }));
  REQUIRE(world.wait([&] { return world.cluster.count("POST") == 2; }));
  CHECK_FALSE(world.wait([&] { return first.lease.leads() && second.lease.leads(); }, 300ms));
}

TEST_CASE("Moments as the API server writes them", "[lease]") {
  const Moment moment{std::chrono::microseconds(1'767'323'045'000'042)};
  CHECK(to_time(moment) == "2026-01-02T03:04:05Z");
  CHECK(to_micro_time(moment) == "2026-01-02T03:04:05.000042Z");
}
