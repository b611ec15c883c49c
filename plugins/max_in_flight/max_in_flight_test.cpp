#include "max_in_flight/max_in_flight.hpp"

#include "support/plugin_runner.hpp"

namespace warmroute::test {
namespace {

using Kept = std::vector<bool>;
using plugins::make_max_in_flight;

TEST_CASE("max-in-flight: a pod stays below its limit, whatever its load sample says") {
  FakeHost host;
  const auto plugin = make_plugin(make_max_in_flight, host, "maxInFlight: 3");
  CHECK(kept_by(*plugin, {pod_unknown(0), pod_unknown(2), pod_unknown(3), pod_with({99, 99, 1, 0, 0}, 2)}) ==
        Kept{true, true, false, true});
  const auto* limit = dynamic_cast<InFlightLimit*>(plugin.get());
  REQUIRE(limit != nullptr);
  CHECK(limit->max_in_flight() == 3);
}

TEST_CASE("max-in-flight: a limit is never guessed") {
  for (const auto* args : {"", "{}", "maxInFlight: null", "maxInFlight: 0", "maxInFlight: -1", "maxInFlight: '3'",
                           "maxInFlight: 1.5", "[3]"}) {
    FakeHost host;
    INFO(args);
    CHECK(!make_max_in_flight(*args == 0 ? Args() : to_args(args), host).has_value());
  }
}

}  // namespace
}  // namespace warmroute::test
