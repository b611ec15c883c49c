#include "prefer_pod.hpp"

#include "schedule/build.hpp"
#include "support/plugin_runner.hpp"

namespace warmroute::test {
namespace {

using plugins::make_prefer_pod;

std::vector<PodView> two_pods() {
  std::vector<PodView> pods(2);
  pods[0].name = "default/engine-a";
  pods[1].name = "default/engine-b";
  return pods;
}

TEST_CASE("prefer-pod: pods with the suffix score 100") {
  FakeHost host;
  const auto plugin = make_plugin(make_prefer_pod, host, "suffix: '-b'");
  CHECK(scores_of(*plugin, two_pods()) == std::vector<std::int64_t>{0, 100});
}

TEST_CASE("prefer-pod: without a suffix it has nothing to say, a wrong type stops the start") {
  FakeHost host;
  const auto plugin = make_plugin(make_prefer_pod, host);
  std::vector<std::int64_t> scores(2, 0);
  CHECK_FALSE(dynamic_cast<ScorePlugin&>(*plugin).score({}, nullptr, two_pods(), scores));
  CHECK(make_prefer_pod(to_args("suffix: 3"), host).has_error());
}

TEST_CASE("prefer-pod: works in a pipeline under its registered name") {
  FakeHost host;
  Registry registry;
  registry.add("prefer-pod", &make_prefer_pod);
  schedule::PipelineConfig config;
  config.scores = {{"prefer-pod", 2}};
  config.args["prefer-pod"] = to_args("suffix: '-b'");
  const auto pipeline = schedule::build_pipeline(config, registry, host, nullptr).value();
  auto states = pipeline->new_states();
  const auto pods = two_pods();
  const auto decision = pipeline->run({}, states, pods);
  CHECK(decision.candidates[0].index == 1);
  CHECK(decision.candidates[0].total == 200);
  const auto said = pipeline->explain({}, pods);
  REQUIRE(said.size() == 1);
  CHECK(said[0].first == "prefer-pod");
}

}  // namespace
}  // namespace warmroute::test
