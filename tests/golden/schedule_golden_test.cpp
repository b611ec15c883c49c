// Whole scheduling decisions over sequences of records and picks (vectors/schedule.jsonl, mode plain).
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "schedule/build.hpp"
#include "support/fake_host.hpp"
#include "support/golden_file.hpp"
#include "support/golden_pods.hpp"
#include "support/yaml_value.hpp"

namespace warmroute::test {
namespace {

using schedule::Decision;
using schedule::Pipeline;
using schedule::PipelineConfig;
using simdjson::dom::array;
using simdjson::dom::element;

/// The file below the configuration reader's checks: weights are taken as Go took them.
PipelineConfig read_config(element record) {
  PipelineConfig config;
  config.skip_unknown = true;
  std::string_view text;
  if (record["config"].get(text) != simdjson::SUCCESS) {
    config.filters = {"least-request"};
    config.scores = {{"least-request", 1}, {"least-latency", 1}, {"prefix-cache", 1}};
    return config;
  }
  const YAML::Node scheduler = YAML::Load(std::string(text))["scheduler"];
  if (!scheduler) return config;
  for (const auto& block : scheduler["pluginConfig"])
    config.args[block["name"].as<std::string>()] = Args(to_value(block["args"]));
  const YAML::Node plugins = scheduler["plugins"];
  if (!plugins) return config;
  if (plugins["Filter"])
    for (const auto& name : plugins["Filter"]["enabled"]) config.filters.push_back(name.as<std::string>());
  if (plugins["Score"])
    for (const auto& entry : plugins["Score"]["enabled"]) {
      const auto weight = static_cast<std::int64_t>(entry["weight"].as<double>(0));
      config.scores.push_back({entry["name"].as<std::string>(), std::max<std::int64_t>(weight, 0)});
    }
  return config;
}

struct World {
  explicit World(element record) : pods(record["pods"]) {
    Registry registry;
    register_plugins(registry);
    auto built = schedule::build_pipeline(read_config(record), registry, host, nullptr);
    REQUIRE(built.has_value());
    pipeline = std::move(*built);
    for (const auto& pod : pods.views()) host.join(pod.id);
  }
  FakeHost host;
  GoldenPods pods;
  std::unique_ptr<Pipeline> pipeline;
};

RequestView request_of(element step) {
  RequestView request;
  request.model = std::string_view(step["model"]);
  request.prompt = std::string_view(step["prompt"]);
  return request;
}

void record_step(World& world, element step) {
  const RequestView request = request_of(step);
  auto states = world.pipeline->new_states();
  (void)world.pipeline->run(request, states, world.pods.views());
  Outcome outcome;
  outcome.status = 200;
  world.pipeline->attempt_done(request, states, world.pods.id(std::string_view(step["pod"])), outcome);
}

struct Group {
  std::int64_t score = 0;
  std::size_t take = 0;
  std::set<std::string> pods;
};

std::vector<Group> groups_of(element result, const GoldenPods& pods, Deviations& deviations) {
  std::vector<Group> groups;
  for (const auto& item : array(result["best"])) {
    Group group;
    group.score = std::int64_t(item["score"]);
    group.take = std::size_t(std::int64_t(item["take"]));
    for (const auto& pod : array(item["pods"])) group.pods.emplace(std::string_view(pod));
    groups.push_back(group);
  }
  array survivors;
  if (!groups.empty() || result["survivors"].get(survivors) != simdjson::SUCCESS) return groups;
  deviations.rule("every_survivor_is_a_candidate");
  Group all;
  for (const auto& pod : survivors) all.pods.emplace(std::string_view(pod));
  all.take = std::min(all.pods.size(), schedule::candidate_limit);
  REQUIRE(pods.views().size() >= all.pods.size());
  return {all};
}

void check_step(World& world, element step, Deviations& deviations) {
  const element result = step["result"];
  auto states = world.pipeline->new_states();
  const Decision decision = world.pipeline->run(request_of(step), states, world.pods.views());
  std::string_view error;
  if (result["error"].get(error) == simdjson::SUCCESS) {
    CHECK(decision.count == 0);
    CHECK("pods have all been filtered out by \"" + std::string(decision.filtered_by) + "\"" == error);
    return;
  }
  std::size_t next = 0;
  std::set<std::string> taken;
  for (const auto& group : groups_of(result, world.pods, deviations)) {
    for (std::size_t i = 0; i < group.take; ++i, ++next) {
      REQUIRE(next < decision.count);
      const auto& candidate = decision.candidates[next];
      const std::string name(world.pods.views()[candidate.index].name);
      CHECK(candidate.total == group.score);
      CHECK(group.pods.count(name) == 1);
      CHECK(taken.insert(name).second);
    }
  }
  CHECK(next == decision.count);
}

TEST_CASE("scheduling decisions are the recorded ones", "[golden]") {
  Deviations deviations("schedule");
  int plain = 0;
  for_each_record("schedule", [&](element record) {
    if (std::string_view(record["mode"]) != "plain") {
      deviations.rule("prefill_decode_waits");
      return;
    }
    ++plain;
    INFO("record " << std::string_view(record["id"]));
    World world(record);
    int number_of_step = 0;
    for (const auto& step : array(record["steps"])) {
      INFO("step " << number_of_step++);
      if (std::string_view(step["op"]) == "record") {
        record_step(world, step);
      } else {
        check_step(world, step, deviations);
      }
    }
  });
  CHECK(plain == 88);
  CHECK(deviations.unused().empty());
}

}  // namespace
}  // namespace warmroute::test
