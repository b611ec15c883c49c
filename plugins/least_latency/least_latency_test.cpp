#include "least_latency/least_latency.hpp"

#include "support/plugin_runner.hpp"

namespace warmroute::test {
namespace {

using Scores = std::vector<std::int64_t>;
using plugins::make_least_latency;

PodView timed(double ttft, double tpot) { return pod_with({0, 0, 0, ttft, tpot}); }

TEST_CASE("least-latency: the factor weighs first token against next tokens") {
  FakeHost host;
  const std::vector<PodView> pods{timed(100, 10), timed(1, 20)};
  CHECK(scores_of(*make_plugin(make_least_latency, host, "TTFTTPOTWeightFactor: 0"), pods) == Scores{100, 0});
  CHECK(scores_of(*make_plugin(make_least_latency, host, "TTFTTPOTWeightFactor: 1"), pods) == Scores{0, 100});
  CHECK(scores_of(*make_plugin(make_least_latency, host), pods) == Scores{50, 50});
}

TEST_CASE("least-latency: equal pods and a single pod get 100") {
  FakeHost host;
  const auto plugin = make_plugin(make_least_latency, host);
  CHECK(scores_of(*plugin, {timed(0.3, 0.1)}) == Scores{100});
  CHECK(scores_of(*plugin, {timed(0.3, 0.1), timed(0.3, 0.1)}) == Scores{100, 100});
}

TEST_CASE("least-latency: unmeasured and unknown pods get 50 and move no limits") {
  FakeHost host;
  const auto plugin = make_plugin(make_least_latency, host);
  CHECK(scores_of(*plugin, {timed(0, 1), timed(1, 0), timed(-1, 1), pod_unknown(), timed(2, 2), timed(4, 4)}) ==
        Scores{50, 50, 50, 50, 100, 0});
}

TEST_CASE("least-latency: a factor that is no finite number from 0 to 1 is refused") {
  for (const auto* args : {"TTFTTPOTWeightFactor: -0.1", "TTFTTPOTWeightFactor: 1.1", "TTFTTPOTWeightFactor: .inf",
                           "TTFTTPOTWeightFactor: .nan", "TTFTTPOTWeightFactor: 'x'", "[1]"}) {
    FakeHost host;
    INFO(args);
    const auto made = make_least_latency(to_args(args), host);
    REQUIRE(made.has_error());
    CHECK(made.error().detail.find("invalid least-latency plugin configuration: ") == 0);
  }
  FakeHost host;
  CHECK(make_least_latency(to_args("TTFTTPOTWeightFactor: -.inf"), host).error().detail ==
        "invalid least-latency plugin configuration: TTFTTPOTWeightFactor must be a finite value between 0 and 1, "
        "got -Inf");
}

}  // namespace
}  // namespace warmroute::test
