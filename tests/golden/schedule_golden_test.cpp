// Whole scheduling decisions over sequences of records and picks (vectors/schedule.jsonl).
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/snapshot.hpp"
#include "schedule/build.hpp"
#include "schedule/pairs.hpp"
#include "support/fake_host.hpp"
#include "support/golden_file.hpp"
#include "support/golden_pods.hpp"
#include "support/yaml_value.hpp"

namespace warmroute::test {
namespace {

using schedule::Decision;
using schedule::PairDecision;
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

/// Shared by the test cases: an entry may be needed by either mode.
Deviations& listed() {
  static Deviations deviations("schedule");
  return deviations;
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
  for (const char* role : {"pod", "prefill"}) {
    std::string_view name;
    if (step[role].get(name) == simdjson::SUCCESS)
      world.pipeline->attempt_done(request, states, world.pods.id(name), outcome);
  }
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

model::Labels labels_of(element object) {
  model::Labels labels;
  simdjson::dom::object members;
  if (object.get(members) == simdjson::SUCCESS)
    for (const auto& [name, value] : members) labels[std::string(name)] = std::string_view(value);
  return labels;
}

std::vector<model::PdGroupPods> pd_groups(element record) {
  const element spec = record["pd_group"];
  const model::PdGroup group{std::string(std::string_view(spec["groupKey"])), labels_of(spec["prefillLabels"]),
                             labels_of(spec["decodeLabels"])};
  std::vector<model::Labels> labels;
  for (const auto& pod : array(record["pods"])) {
    element given;
    labels.push_back(pod["labels"].get(given) == simdjson::SUCCESS ? labels_of(given) : model::Labels{});
  }
  std::vector<const model::Labels*> pointers;
  for (const auto& each : labels) pointers.push_back(&each);
  std::vector<model::PodEntry> entries(labels.size());
  return model::form_pd_groups(group, pointers, entries);
}

std::set<std::string> names(element object, const char* member) {
  std::set<std::string> found;
  array list;
  if (object[member].get(list) == simdjson::SUCCESS)
    for (const auto& name : list) found.emplace(std::string_view(name));
  return found;
}

std::int64_t total_of(element object, const std::string& pod) {
  std::int64_t total = 0;  // nobody had anything to say: 0
  element totals;
  if (object["totals"].get(totals) == simdjson::SUCCESS) (void)totals[pod].get(total);
  return total;
}

/// The recorded choice among the decode pods that have a partner.
struct Partners {
  explicit Partners(element result) {
    const auto survivors = names(result, "survivors");
    array prefill;
    if (result["prefill"].get(prefill) != simdjson::SUCCESS) return;
    for (const auto& entry : prefill) {
      const std::string decode{std::string_view(entry["decode"])};
      if (survivors.count(decode) == 0) continue;
      const auto able = names(entry, "survivors");
      if (able.empty()) {
        alone.insert(decode);
        continue;
      }
      const auto best = names(entry, "best");
      able_prefill[decode] = best.empty() ? able : best;
      entries.emplace(decode, entry);
      totals.insert(total_of(result, decode));
    }
  }
  std::set<std::string> alone;  ///< decode pods without a partner
  std::map<std::string, std::set<std::string>> able_prefill;
  std::map<std::string, element> entries;
  std::multiset<std::int64_t> totals;
};

void note_pd_rules(element result, const Partners& partners, Deviations& deviations) {
  if (array(result["best"]).size() == 0 && !partners.able_prefill.empty())
    deviations.rule("every_survivor_is_a_candidate");
  for (const auto& group : array(result["best"]))
    for (const auto& pod : array(group["pods"]))
      if (partners.alone.count(std::string(std::string_view(pod))) != 0) deviations.rule("decode_pods_need_a_partner");
}

void check_pd_step(World& world, element step, std::span<const model::PdGroupPods> groups, Deviations& deviations) {
  const element result = step["result"];
  auto states = world.pipeline->new_states();
  const auto views = world.pods.views();
  const PairDecision decision = schedule::run_pairs(*world.pipeline, request_of(step), states, views, groups);
  std::string_view error;
  (void)result["error"].get(error);
  if (error.find("filtered out by") != std::string_view::npos) {
    CHECK(decision.end == PairDecision::End::filtered);
    CHECK("pods have all been filtered out by \"" + std::string(decision.filtered_by) + "\"" == error);
    return;
  }
  if (error.find("no decode pod") != std::string_view::npos) {
    CHECK(decision.end == PairDecision::End::no_decode);
    return;
  }
  const Partners partners(result);
  note_pd_rules(result, partners, deviations);
  if (partners.able_prefill.empty()) {
    CHECK(error == "no valid prefill-decode pod pairs found");
    CHECK(decision.end == PairDecision::End::no_pair);
    return;
  }
  REQUIRE(decision.end == PairDecision::End::paired);
  REQUIRE(decision.count == std::min(partners.totals.size(), schedule::candidate_limit));
  auto best = partners.totals.rbegin();
  std::set<std::string> taken;
  for (std::size_t i = 0; i < decision.count; ++i, ++best) {
    const std::string decode(views[decision.decode[i].index].name);
    INFO("decode pod " << decode);
    CHECK(decision.decode[i].total == *best);
    CHECK(total_of(result, decode) == *best);
    CHECK(taken.insert(decode).second);
    REQUIRE(partners.able_prefill.count(decode) == 1);
    const auto& prefill = decision.prefill[decision.group[i]].candidates[0];
    const std::string name(views[prefill.index].name);
    CHECK(partners.able_prefill.at(decode).count(name) == 1);
    CHECK(prefill.total == total_of(partners.entries.at(decode), name));
  }
}

void run_records(const char* mode, int expected) {
  int count = 0;
  for_each_record("schedule", [&](element record) {
    if (std::string_view(record["mode"]) != mode) return;
    ++count;
    INFO("record " << std::string_view(record["id"]));
    World world(record);
    const bool plain = std::string_view(mode) == "plain";
    const auto groups = plain ? std::vector<model::PdGroupPods>{} : pd_groups(record);
    int number_of_step = 0;
    for (const auto& step : array(record["steps"])) {
      INFO("step " << number_of_step++);
      if (std::string_view(step["op"]) == "record") {
        record_step(world, step);
      } else if (plain) {
        check_step(world, step, listed());
      } else {
        check_pd_step(world, step, groups, listed());
      }
    }
  });
  CHECK(count == expected);
}

TEST_CASE("scheduling decisions are the recorded ones", "[golden]") { run_records("plain", 88); }

TEST_CASE("choices of prefill/decode pairs are the recorded ones", "[golden][pd]") { run_records("pd", 44); }

TEST_CASE("every listed deviation of the schedule is needed", "[golden]") {
  run_records("plain", 88);
  run_records("pd", 44);
  CHECK(listed().unused().empty());
}

}  // namespace
}  // namespace warmroute::test
