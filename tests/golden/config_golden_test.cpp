// vectors/config.jsonl: router configurations through the reader, then through the pipeline's builder.
#include <catch2/catch.hpp>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "config/router_config.hpp"
#include "config/yaml_reader.hpp"
#include "schedule/build.hpp"
#include "support/fake_host.hpp"
#include "support/golden_file.hpp"

namespace warmroute::test {
namespace {

using config::parse_router_config;
using config::RouterConfig;
using simdjson::dom::element;
using Weights = std::map<std::string, std::int64_t>;

/// Values as text that compares by meaning: keys in order, integers and fractions apart.
std::string shown(const Value& value) {
  struct Visitor {
    std::string operator()(std::monostate) const { return "null"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return "f" + std::to_string(number); }
    std::string operator()(const std::string& text) const { return "'" + text + "'"; }
    std::string operator()(const Value::List& list) const {
      std::string out = "[";
      for (const auto& item : list) out += shown(item) + ",";
      return out + "]";
    }
    std::string operator()(const Value::Map& map) const {
      std::string out = "{";
      for (const auto& [key, item] : map) out += key + ":" + shown(item) + ",";
      return out + "}";
    }
  };
  return std::visit(Visitor{}, value.data);
}

Value value_of(const std::string& text) {
  config::Diagnostics diagnostics;
  const auto file = config::YamlFile::parse(text, "args", diagnostics);
  return file.documents().empty() ? Value{} : file.documents().front().to_value();
}

bool present(element record, std::string_view key) {
  const auto member = record[key];
  return member.error() == simdjson::SUCCESS && !member.value_unsafe().is_null();
}

Weights expected_weights(element record) {
  Weights out;
  if (!present(record, "score")) return out;
  for (const auto member : simdjson::dom::object(record["score"])) {
    out[std::string(member.key)] = std::int64_t(member.value);
  }
  return out;
}

std::vector<std::string> strings(element parent, std::string_view key) {
  std::vector<std::string> out;
  if (!present(parent, key)) return out;
  for (const auto item : simdjson::dom::array(parent[key])) out.emplace_back(std::string_view(item));
  return out;
}

Weights our_weights(const RouterConfig& ours) {
  Weights out;
  for (const auto& [name, weight] : ours.pipeline.scores) out[name] = weight;
  return out;
}

/// The part of a message that is ours to keep; the rest is a library's text.
std::string fixed_part(const std::string& stage, const std::string& text) {
  const auto keep = [&](const std::string& prefix) { return text.substr(0, std::min(text.size(), prefix.size())); };
  if (stage == "parse") {
    const std::string prefix = "failed to Unmarshal routerConfiguration: ";
    const std::string detail = text.substr(std::min(text.size(), prefix.size()));
    if (detail == "plugin configuration must be a mapping") return text;
    if (detail.starts_with("decode plugin name: ")) return keep(prefix + "decode plugin name: ");
    return keep(prefix);
  }
  const std::string prefix = "failed to Unmarshal PluginsConfig: invalid least-latency plugin configuration: ";
  if (text.find("unsupported value") != std::string::npos) return prefix;  // .nan and .inf, see spec 1.3
  return text.starts_with(prefix + "unmarshal") ? keep(prefix + "unmarshal least-latency arguments: ") : text;
}

class Runner {
 public:
  void run(element record) {
    const std::string id{std::string_view(record["id"])};
    CAPTURE(id);
    const auto outcome = parse_router_config(std::string_view(record["config"]), "routerConfiguration.yaml");
    CAPTURE(outcome.error);
    if (present(record, "error_stage")) {
      check_refused(record, outcome.error, outcome.config.has_value());
      return;
    }
    for (const auto& [name, weight] : expected_weights(record)) {
      if (weight > 0) continue;
      deviations.rule("weights-above-zero");
      CHECK_FALSE(outcome.config);
      CHECK(outcome.error == "failed to Load Scheduler: failed to Unmarshal Plugins: score plugin \"" + name +
                                 "\" must set a weight greater than 0, got " + std::to_string(weight));
      return;
    }
    if (!outcome.config) {
      const YAML::Node* expect = deviations.record(id);
      REQUIRE(expect != nullptr);
      CHECK((*expect)["error"].as<std::string>() == outcome.error);
      return;
    }
    check_read(record, id, *outcome.config);
    check_built(record, *outcome.config);
  }

  Deviations deviations{"config"};

 private:
  void check_refused(element record, const std::string& error, bool accepted) {
    CHECK_FALSE(accepted);
    const std::string stage{std::string_view(record["error_stage"])};
    const std::string recorded{std::string_view(record["error"])};
    const std::string fixed = fixed_part(stage, recorded);
    if (fixed != recorded) deviations.rule("library-texts");
    CHECK(error.starts_with((stage == "parse" ? "failed to parse router config: " : "failed to Load Scheduler: ") +
                            fixed));
    if (fixed == recorded) CHECK(error.ends_with(recorded));
  }

  /// What the reader decides.
  void check_read(element record, const std::string& id, const RouterConfig& ours) {
    Weights weights = our_weights(ours);
    if (weights != expected_weights(record) && weights.size() > 1 && weights.erase("random") == 1) {
      deviations.rule("random-removed-later");
    }
    CHECK(weights == expected_weights(record));
    CHECK(ours.pipeline.filters == strings(record, "filter"));
    const element auth = record["auth"];
    CHECK(ours.issuer == std::string_view(auth["issuer"]));
    CHECK(ours.jwks_uri == std::string_view(auth["jwksUri"]));
    CHECK(ours.audiences == strings(auth, "audiences"));

    std::map<std::string, std::string> expected_args, our_args;
    if (present(record, "args")) {
      for (const auto member : simdjson::dom::object(record["args"])) {
        expected_args[std::string(member.key)] = shown(value_of(std::string(std::string_view(member.value))));
      }
    }
    for (const auto& [name, args] : ours.pipeline.args) our_args[name] = shown(args.root());
    if (our_args == expected_args) return;
    const YAML::Node* expect = deviations.record(id);
    if (expect == nullptr) {
      CHECK(our_args == expected_args);
      return;
    }
    expected_args.clear();
    for (const auto& member : (*expect)["args"]) {
      std::stringstream text;
      text << member.second;
      expected_args[member.first.as<std::string>()] = shown(value_of(text.str()));
    }
    CHECK(our_args == expected_args);
  }

  /// What comes out of the builder in --compat=kthena.
  void check_built(element record, const RouterConfig& ours) {
    Registry registry;
    register_plugins(registry);
    FakeHost host;
    schedule::PipelineConfig config = ours.pipeline;
    config.skip_unknown = true;
    const auto built = schedule::build_pipeline(config, registry, host, nullptr);
    REQUIRE(built.has_value());
    const auto has_role = [&](const std::string& name, auto* role) {
      if (!registry.knows(name)) return false;
      const auto args = config.args.find(name);
      const auto plugin = registry.make(name, args == config.args.end() ? Args() : args->second, host);
      return plugin.has_value() && dynamic_cast<std::remove_pointer_t<decltype(role)>*>(plugin->get()) != nullptr;
    };
    Weights scorers = our_weights(ours);
    if (scorers.size() > 1) scorers.erase("random");
    std::erase_if(scorers, [&](const auto& entry) { return !has_role(entry.first, (ScorePlugin*)nullptr); });
    Weights expected_scorers;
    if (present(record, "effective_scorers")) {
      for (const auto scorer : simdjson::dom::array(record["effective_scorers"])) {
        expected_scorers[std::string(std::string_view(scorer["name"]))] = std::int64_t(scorer["weight"]);
      }
    }
    CHECK(scorers == expected_scorers);
    CHECK((*built)->has_scorers() == !expected_scorers.empty());

    std::vector<std::string> filters = ours.pipeline.filters;
    std::erase_if(filters, [&](const auto& name) { return !has_role(name, (FilterPlugin*)nullptr); });
    std::vector<std::string> expected_filters;
    if (present(record, "effective_filters")) {
      for (const auto filter : simdjson::dom::array(record["effective_filters"])) {
        expected_filters.emplace_back(std::string_view(filter["name"]));
      }
    }
    CHECK(filters == expected_filters);
  }
};

}  // namespace

TEST_CASE("golden: router configurations", "[golden][config_golden]") {
  Runner runner;
  CHECK(for_each_record("config", [&](element record) { runner.run(record); }) == 98);
  CHECK(runner.deviations.unused() == std::set<std::string>());
}

}  // namespace warmroute::test
