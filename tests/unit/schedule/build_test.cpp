#include "schedule/build.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "support/fake_host.hpp"
#include "support/yaml_value.hpp"

namespace warmroute::test {
namespace {

using namespace warmroute::schedule;

Result<std::unique_ptr<Pipeline>> build(const PipelineConfig& config, FakeHost& host) {
  Registry registry;
  register_plugins(registry);
  return build_pipeline(config, registry, host, nullptr);
}

PipelineConfig config_of(std::vector<std::string> filters, std::vector<PipelineConfig::Score> scores) {
  PipelineConfig config;
  config.filters = std::move(filters);
  config.scores = std::move(scores);
  return config;
}

TEST_CASE("an unknown plugin stops the start and the known ones are listed") {
  FakeHost host;
  const auto built = build(config_of({"no-such"}, {{"least-request", 1}}), host);
  REQUIRE(built.has_error());
  CHECK(built.error().code == Errc::unknown_plugin);
  CHECK(built.error().detail.find("unknown filter plugin \"no-such\"; known plugins: gpu-usage, least-latency") == 0);
}

TEST_CASE("a plugin in a role it lacks is unknown") {
  FakeHost host;
  CHECK(build(config_of({"gpu-usage"}, {{"least-request", 1}}), host).has_error());
  CHECK(build(config_of({}, {{"lora-affinity", 1}}), host).has_error());
}

TEST_CASE("in compatibility mode unknown plugins are logged and skipped") {
  FakeHost host;
  auto config = config_of({"no-such", "gpu-usage", "least-request"}, {{"lora-affinity", 1}, {"gpu-usage", 1}});
  config.skip_unknown = true;
  const auto built = build(config, host);
  REQUIRE(built.has_value());
  CHECK((*built)->has_scorers());
  const std::vector<std::string> want{"Failed to get plugin no-such.", "Failed to get plugin gpu-usage.",
                                      "Failed to get plugin lora-affinity."};
  CHECK(host.errors == want);
}

TEST_CASE("what this build cannot do stops the start in every mode") {
  FakeHost host;
  auto config = config_of({}, {{"kvcache-aware", 1}});
  config.skip_unknown = true;
  const auto built = build(config, host);
  REQUIRE(built.has_error());
  CHECK(built.error().detail == "kvcache-aware is not supported by this build");
}

TEST_CASE("random beside others is removed with a warning") {
  FakeHost host;
  REQUIRE(build(config_of({}, {{"random", 9}, {"gpu-usage", 1}}), host).has_value());
  CHECK(FakeHost::contains(host.warnings, "random is removed"));

  FakeHost alone;
  const auto built = build(config_of({}, {{"random", 1}, {"random", 2}}), alone);
  REQUIRE(built.has_value());
  CHECK((*built)->has_scorers());
  CHECK(alone.warnings.empty());
}

TEST_CASE("no score plugin at all is a warning and a random choice") {
  FakeHost host;
  const auto built = build(config_of({"least-request"}, {}), host);
  REQUIRE(built.has_value());
  CHECK_FALSE((*built)->has_scorers());
  CHECK(FakeHost::contains(host.warnings, "no score plugin is enabled"));
}

TEST_CASE("arguments that a plugin refuses stop the start") {
  FakeHost host;
  auto config = config_of({}, {{"least-latency", 1}});
  config.args["least-latency"] = to_args("TTFTTPOTWeightFactor: 1.7");
  const auto built = build(config, host);
  REQUIRE(built.has_error());
  CHECK(built.error().detail ==
        "invalid least-latency plugin configuration: TTFTTPOTWeightFactor must be a finite value between 0 and 1, "
        "got 1.7");
}

TEST_CASE("of equal score names the last weight wins, and it runs once") {
  FakeHost host;
  const auto built = build(config_of({}, {{"gpu-usage", 1}, {"gpu-usage", 3}}), host);
  REQUIRE(built.has_value());
  PodView pod;
  pod.load = LoadSample{0, 0, 0.5, 0, 0};
  auto states = (*built)->new_states();
  CHECK((*built)->run(RequestView{}, states, std::span(&pod, 1)).candidates[0].total == 150);
}

}  // namespace
}  // namespace warmroute::test
