#include "schedule/pairs.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

namespace warmroute::test {
namespace {

using namespace warmroute::schedule;
using End = PairDecision::End;

/// Points and exclusions by pod name; remembers the pods of each pass.
struct ByName : FilterPlugin, ScorePlugin {
  [[nodiscard]] std::string_view name() const noexcept override { return "by-name"; }
  void filter(const RequestView&, RequestState*, std::span<const PodView> pods, std::span<bool> keep) const override {
    for (std::size_t i = 0; i < pods.size(); ++i)
      if (dropped.count(std::string(pods[i].name)) != 0) keep[i] = false;
  }
  bool score(const RequestView&, RequestState*, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override {
    passes.emplace_back();
    for (std::size_t i = 0; i < pods.size(); ++i) {
      passes.back() += std::string(pods[i].name) + " ";
      const auto found = points.find(std::string(pods[i].name));
      if (found != points.end()) scores[i] = found->second;
    }
    return true;
  }
  std::map<std::string, std::int64_t> points;
  std::set<std::string> dropped;
  mutable std::vector<std::string> passes;
};

struct World {
  explicit World(std::shared_ptr<ByName> of = std::make_shared<ByName>()) : plugin(std::move(of)) {}
  std::shared_ptr<ByName> plugin;
  Pipeline pipeline{{plugin}, {{plugin, 1}}, nullptr};
  std::vector<std::string> names;
  std::vector<model::PdGroupPods> groups;

  void group(const std::vector<std::string>& prefill, const std::vector<std::string>& decode) {
    model::PdGroupPods made;
    for (const auto& name : prefill) made.prefill.push_back(add(name));
    for (const auto& name : decode) made.decode.push_back(add(name));
    groups.push_back(made);
  }
  std::uint32_t add(const std::string& name) {
    names.push_back(name);
    return static_cast<std::uint32_t>(names.size() - 1);
  }
  PairDecision run() {
    std::vector<PodView> views(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) views[i].name = names[i];
    auto states = pipeline.new_states();
    return run_pairs(pipeline, RequestView{}, states, views, groups);
  }
  /// "decode+prefill" of each pair.
  std::string pairs(const PairDecision& decision) {
    std::string out;
    for (std::size_t i = 0; i < decision.count; ++i)
      out +=
          names[decision.decode[i].index] + "+" + names[decision.prefill[decision.group[i]].candidates[0].index] + " ";
    return out;
  }
};

TEST_CASE("each decode pod gets the best prefill pod of its own group", "[pd]") {
  World world;
  world.group({"p1a", "p1b"}, {"d1"});
  world.group({"p2a", "p2b"}, {"d2"});
  world.plugin->points = {{"d2", 9}, {"d1", 5}, {"p1a", 1}, {"p1b", 2}, {"p2a", 2}, {"p2b", 1}};
  const auto decision = world.run();
  CHECK(decision.end == End::paired);
  CHECK(world.pairs(decision) == "d2+p2a d1+p1b ");
  CHECK(world.plugin->passes == std::vector<std::string>{"d1 d2 ", "p2a p2b ", "p1a p1b "});
}

TEST_CASE("a group is asked for its prefill pods once, however many decode pods it has", "[pd]") {
  World world;
  world.group({"p"}, {"d1", "d2", "d3"});
  CHECK(world.run().count == 3);
  CHECK(world.plugin->passes.size() == 2);
}

TEST_CASE("decode pods without a prefill pod take no place", "[pd]") {
  World world;
  world.group({}, {"x1", "x2", "x3", "x4", "x5", "x6"});
  world.group({"p"}, {"d"});
  for (int i = 1; i <= 6; ++i) world.plugin->points["x" + std::to_string(i)] = 100;
  CHECK(world.pairs(world.run()) == "d+p ");
}

TEST_CASE("a group whose prefill pods are filtered out gives its places to others", "[pd]") {
  World world;
  world.group({"px"}, {"x1", "x2", "x3", "x4", "x5"});
  world.group({"p"}, {"d"});
  for (int i = 1; i <= 5; ++i) world.plugin->points["x" + std::to_string(i)] = 100;
  world.plugin->dropped = {"px"};
  CHECK(world.pairs(world.run()) == "d+p ");
  world.groups.pop_back();
  const auto alone = world.run();
  CHECK(alone.end == End::no_pair);
  CHECK(alone.count == 0);
}

TEST_CASE("what is missing is said", "[pd]") {
  World world;
  CHECK(world.run().end == End::no_decode);
  world.group({"p"}, {});
  CHECK(world.run().end == End::no_decode);
  world.groups.clear();
  world.group({}, {"d"});
  CHECK(world.run().end == End::no_pair);
  world.groups.clear();
  world.group({"p"}, {"d1", "d2"});
  world.plugin->dropped = {"d1", "d2"};
  const auto decision = world.run();
  CHECK(decision.end == End::filtered);
  CHECK(decision.filtered_by == "by-name");
}

TEST_CASE("pods at their limit may make a pair later, but only where the other role is there", "[pd]") {
  struct Full final : ByName, InFlightLimit {
    [[nodiscard]] std::int64_t max_in_flight() const noexcept override { return 1; }
  };
  World world(std::make_shared<Full>());
  world.group({"p1"}, {"d1"});
  world.group({"p2"}, {"d2"});
  world.plugin->dropped = {"d1"};
  CHECK(world.run().end == End::paired);
  CHECK_FALSE(world.run().limited);
  world.plugin->dropped = {"d1", "d2"};
  CHECK(world.run().limited);
  world.plugin->dropped = {"p1", "p2"};
  CHECK(world.run().limited);
  world.plugin->dropped = {"p1", "d2"};
  CHECK(world.run().end != End::paired);
  CHECK(world.run().limited);
  world.groups = {};
  world.group({}, {"d3"});
  world.plugin->dropped = {"d3"};
  CHECK_FALSE(world.run().limited);
}

TEST_CASE("decode pods without a partner are scored with the others, as scores may be relative", "[pd]") {
  World world;
  world.group({}, {"x"});
  world.group({"p"}, {"d"});
  CHECK(world.pairs(world.run()) == "d+p ");
  CHECK(world.plugin->passes == std::vector<std::string>{"x d ", "p "});
}

TEST_CASE("at most five pairs", "[pd]") {
  World world;
  world.group({"p"}, {"d1", "d2", "d3", "d4", "d5", "d6", "d7"});
  CHECK(world.run().count == candidate_limit);
}

}  // namespace
}  // namespace warmroute::test
