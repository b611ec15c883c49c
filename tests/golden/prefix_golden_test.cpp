// Sequences of scoring, recording and deletion against one prefix-cache plugin (vectors/prefix.jsonl).
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "support/fake_host.hpp"
#include "support/golden_file.hpp"
#include "support/yaml_value.hpp"

namespace warmroute::test {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using Scores = std::vector<std::int64_t>;

std::vector<std::string> texts(element list) {
  std::vector<std::string> made;
  for (const auto& item : array(list)) made.emplace_back(std::string_view(item));
  return made;
}

Scores numbers(element list) {
  Scores made;
  for (const auto& item : array(list)) made.push_back(std::int64_t(item));
  return made;
}

std::size_t index(element step, const char* key) { return static_cast<std::size_t>(std::int64_t(step[key])); }

class World {
 public:
  explicit World(element record) : models_(texts(record["models"])), prompts_(texts(record["prompts"])) {
    std::string_view text;
    const bool given = record["args"].get(text) == simdjson::SUCCESS;
    const Args args = given ? to_args(std::string(text)) : Args();
    Registry registry;
    register_plugins(registry);
    plugin_ = registry.make("prefix-cache", args, host_).value();
    if (const auto limit = args.integer("topKMatches"); host_.errors.empty() && limit && limit->value_or(0) > 0)
      top_k_ = static_cast<std::size_t>(**limit);
    for (std::uint32_t slot = 0; slot < texts(record["pods"]).size(); ++slot) {
      PodView pod;
      pod.id = {slot, 1};
      pods_.push_back(pod);
      host_.join(pod.id);
    }
  }

  void run(element step, Deviations& deviations) {
    const std::string_view op = step["op"];
    if (op == "score") {
      check(step);
    } else if (op == "delete") {
      deviations.rule("deleted_pods_come_back_anew");
      PodView& pod = pods_[index(step, "pod")];
      host_.leave(pod.id);
      ++pod.id.generation;
      host_.join(pod.id);
    } else {
      record(step, "pod");
      element prefill;
      if (step["prefill"].get(prefill) == simdjson::SUCCESS) record(step, "prefill");
    }
  }

 private:
  RequestView request(element step) const {
    RequestView made;
    made.model = models_[index(step, "m")];
    made.prompt = prompts_[index(step, "p")];
    return made;
  }

  void record(element step, const char* role) {
    const auto state = plugin_->new_state();
    Scores scores(pods_.size(), 0);
    (void)dynamic_cast<ScorePlugin&>(*plugin_).score(request(step), state.get(), pods_, scores);
    Outcome outcome;
    outcome.status = 200;
    dynamic_cast<PostRequest&>(*plugin_).attempt_done(request(step), state.get(), pods_[index(step, role)].id, outcome);
  }

  void check(element step) {
    std::vector<PodView> pods;
    for (const auto pod : numbers(step["pods"])) pods.push_back(pods_[static_cast<std::size_t>(pod)]);
    const auto state = plugin_->new_state();
    Scores got(pods.size(), 0);
    const bool scored = dynamic_cast<ScorePlugin&>(*plugin_).score(request(step), state.get(), pods, got);
    bool no_scores = false;
    (void)step["no_scores"].get(no_scores);
    REQUIRE(scored == !no_scores);
    if (no_scores) return;
    element want;
    if (step["want"].get(want) == simdjson::SUCCESS) {
      CHECK(got == numbers(want));
      return;
    }
    // Any choice among equals at the cut is right: compare what was chosen, and that the deepest were.
    const Scores all = numbers(step["untruncated"]);
    Scores chosen, deepest = all;
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == 0) continue;
      CHECK(got[i] == all[i]);
      chosen.push_back(got[i]);
    }
    std::sort(chosen.begin(), chosen.end(), std::greater<>());
    std::sort(deepest.begin(), deepest.end(), std::greater<>());
    deepest.resize(std::min(top_k_, deepest.size()));
    CHECK(chosen == deepest);
  }

  FakeHost host_;
  std::vector<std::string> models_, prompts_;
  std::vector<PodView> pods_;
  std::shared_ptr<Plugin> plugin_;
  std::size_t top_k_ = 5;
};

TEST_CASE("prefix-cache scores as recorded over sequences of operations", "[golden]") {
  Deviations deviations("prefix");
  const int count = for_each_record("prefix", [&](element record) {
    INFO("record " << std::string_view(record["id"]));
    World world(record);
    int number_of_step = 0;
    for (const auto& step : array(record["steps"])) {
      INFO("step " << number_of_step++);
      world.run(step, deviations);
    }
  });
  CHECK(count == 150);
  CHECK(deviations.unused().empty());
}

}  // namespace
}  // namespace warmroute::test
