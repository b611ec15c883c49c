// Scores and filter results of single plugins (vectors/plugins.jsonl).
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "support/fake_host.hpp"
#include "support/golden_file.hpp"
#include "support/golden_pods.hpp"
#include "support/yaml_value.hpp"
#include "warmroute/plugin_registry.hpp"

namespace warmroute::test {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;

std::shared_ptr<Plugin> make(element record, FakeHost& host, Deviations& deviations) {
  Registry registry;
  register_plugins(registry);
  const std::string name{std::string_view(record["plugin"])};
  std::string_view text;
  const bool given = record["args"].get(text) == simdjson::SUCCESS;
  auto plugin = registry.make(name, given ? to_args(std::string(text)) : Args(), host);
  if (!plugin && name == "least-latency") {
    deviations.rule("bad_factor_stops_the_start");
    plugin = registry.make(name, Args(), host);
  }
  REQUIRE(plugin.has_value());
  return *plugin;
}

void check_survivors(element record, const FilterPlugin& plugin, const RequestView& request, const GoldenPods& pods) {
  const auto keep = std::make_unique<bool[]>(pods.views().size());
  std::fill_n(keep.get(), pods.views().size(), true);
  plugin.filter(request, nullptr, pods.views(), {keep.get(), pods.views().size()});
  std::vector<std::string> got, want;
  for (std::size_t i = 0; i < pods.views().size(); ++i)
    if (keep[i]) got.emplace_back(pods.views()[i].name);
  for (const auto& name : array(record["survivors"])) want.emplace_back(std::string_view(name));
  CHECK(got == want);
}

void check_scores(element record, const ScorePlugin& plugin, const RequestView& request, const GoldenPods& pods,
                  Deviations& deviations) {
  std::vector<std::int64_t> got(pods.views().size(), 0);
  REQUIRE(plugin.score(request, nullptr, pods.views(), got));
  array bounds;
  if (record["bounds"].get(bounds) == simdjson::SUCCESS) {
    for (const auto score : got) {
      CHECK(score >= std::int64_t(bounds.at(0)));
      CHECK(score <= std::int64_t(bounds.at(1)));
    }
    return;
  }
  std::vector<std::int64_t> want;
  for (const auto& score : array(record["scores"])) want.push_back(std::int64_t(score));
  bool platform = false;
  if (record["platform_dependent"].get(platform) == simdjson::SUCCESS && platform && got != want) {
    deviations.rule("float_outside_integers");
    return;
  }
  CHECK(got == want);
}

TEST_CASE("plugins give the recorded scores and survivors", "[golden]") {
  Deviations deviations("plugins");
  const int count = for_each_record("plugins", [&](element record) {
    INFO("record " << std::string_view(record["id"]));
    FakeHost host;
    const auto plugin = make(record, host, deviations);
    const GoldenPods pods(record["pods"]);
    RequestView request;
    std::string_view model;
    if (record["model"].get(model) == simdjson::SUCCESS) request.model = model;
    if (std::string_view(record["kind"]) == "filter") {
      check_survivors(record, dynamic_cast<const FilterPlugin&>(*plugin), request, pods);
    } else {
      check_scores(record, dynamic_cast<const ScorePlugin&>(*plugin), request, pods, deviations);
    }
  });
  CHECK(count == 418);
  CHECK(deviations.unused().empty());
}

}  // namespace
}  // namespace warmroute::test
