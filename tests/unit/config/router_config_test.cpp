#include "config/router_config.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>

namespace {

using warmroute::config::default_router_config;
using warmroute::config::Diagnostic;
using warmroute::config::has_errors;
using warmroute::config::load_router_config;
using warmroute::config::parse_router_config;
using warmroute::config::RouterConfigOutcome;

RouterConfigOutcome parse(const std::string& text) { return parse_router_config(text, "r.yaml"); }

RouterConfigOutcome with_scores(const std::string& entries) {
  return parse("scheduler:\n  plugins:\n    Score:\n      enabled: [" + entries + "]\n");
}

RouterConfigOutcome with_factor(const std::string& args) {
  return parse("scheduler:\n  pluginConfig:\n  - name: least-latency\n    args: " + args + "\n");
}

const std::string weight_prefix = "failed to Load Scheduler: failed to Unmarshal Plugins: ";
const std::string latency_prefix =
    "failed to Load Scheduler: failed to Unmarshal PluginsConfig: invalid least-latency plugin configuration: ";
const std::string shape_prefix = "failed to parse router config: failed to Unmarshal routerConfiguration: ";

}  // namespace

TEST_CASE("the default configuration is the chart's and equals the file in config/", "[router_config]") {
  std::ifstream in(WR_SOURCE_DIR "/config/routerConfiguration.yaml");
  std::stringstream file;
  file << in.rdbuf();
  CHECK(file.str() == default_router_config());

  const auto outcome = parse(std::string(default_router_config()));
  REQUIRE(outcome.config);
  CHECK(outcome.error.empty());
  CHECK(outcome.diagnostics.empty());
  const auto& pipeline = outcome.config->pipeline;
  CHECK(pipeline.filters == std::vector<std::string>{"least-request"});
  REQUIRE(pipeline.scores.size() == 4);
  for (const auto& score : pipeline.scores) CHECK(score.weight == 1);
  CHECK(pipeline.scores[0].name == "least-request");
  CHECK(pipeline.scores[3].name == "prefix-cache");
  CHECK(**pipeline.args.at("prefix-cache").integer("topKMatches") == 5);
  CHECK(**pipeline.args.at("prefix-cache").integer("maxhashcachesize") == 50000);
  CHECK(**pipeline.args.at("least-latency").number("TTFTTPOTWeightFactor") == 0.5);
  CHECK(**pipeline.args.at("least-request").integer("maxWaitingRequests") == 10);
  CHECK(pipeline.args.at("least-request").origin() == "r.yaml:6");
  CHECK_FALSE(pipeline.skip_unknown);
  CHECK_FALSE(outcome.config->compat_kthena);
}

TEST_CASE("the weight rule of the seed", "[router_config]") {
  const auto says = [](const std::string& entries, const std::string& name, const std::string& got) {
    const auto outcome = with_scores(entries);
    CHECK_FALSE(outcome.config);
    CHECK(outcome.error ==
          weight_prefix + "score plugin \"" + name + "\" must set a weight greater than 0, got " + got);
    CHECK(has_errors(outcome.diagnostics));
  };
  says("{name: prefix-cache, weight: 0}", "prefix-cache", "0");
  says("{name: prefix-cache}", "prefix-cache", "0");
  says("{name: prefix-cache, weight: null}", "prefix-cache", "0");
  says("{name: prefix-cache, weight: 0.5}", "prefix-cache", "0");
  says("{name: prefix-cache, weight: -0.9}", "prefix-cache", "0");
  says("{name: prefix-cache, weight: -3}", "prefix-cache", "-3");
  says("{name: prefix-cache, weight: -3.9}", "prefix-cache", "-3");
  // known or not, also `random` beside others and one that a later entry would replace
  says("{name: gpu-usage, weight: 1}, {name: nonsense, weight: 0}", "nonsense", "0");
  says("{name: random}, {name: gpu-usage, weight: 1}", "random", "0");
  says("{name: gpu-usage, weight: 0}, {name: gpu-usage, weight: 3}", "gpu-usage", "0");
  says("{weight: -1}", "", "-1");
  says("{name: 'a\"b', weight: 0}", "a\\\"b", "0");
  // the first wrong one is told; the diagnostics have all, with places
  const auto outcome = with_scores("{name: a, weight: 0}, {name: b, weight: -2}");
  CHECK(outcome.error.find("\"a\"") != std::string::npos);
  REQUIRE(outcome.diagnostics.size() == 2);
  CHECK(outcome.diagnostics[1].text() ==
        "r.yaml:4:57: scheduler.plugins.Score.enabled[1].weight: score plugin \"b\" must set a weight greater than 0, "
        "got -2");
}

TEST_CASE("weights that count", "[router_config]") {
  const auto weight = [](const std::string& text) {
    const auto outcome = with_scores("{name: gpu-usage, weight: " + text + "}");
    REQUIRE(outcome.config);
    return outcome.config->pipeline.scores.at(0).weight;
  };
  CHECK(weight("1") == 1);
  CHECK(weight("16.5") == 16);
  CHECK(weight("1e2") == 100);
  CHECK(weight("0x1F") == 31);
  CHECK(weight("0o17") == 15);
  CHECK(weight("1_000") == 1000);
  CHECK(weight("010") == 10);
  CHECK(weight("9223372036854775807") == 9223372036854775807);
  for (const auto* text : {"\"23\"", "yes", "[1]", "{a: 1}", "99999999999999999999", "9223372036854775808", ".nan",
                           ".inf", "-.inf", "true", "abc"}) {
    const auto outcome = with_scores(std::string("{name: gpu-usage, weight: ") + text + "}");
    CAPTURE(text, outcome.error);
    CHECK_FALSE(outcome.config);
    CHECK(outcome.error.starts_with(shape_prefix + "r.yaml:4:43: scheduler.plugins.Score.enabled[0].weight: "));
  }
}

TEST_CASE("a disabled list has no effect, its shape is checked", "[router_config]") {
  const auto outcome = parse(
      "scheduler:\n  plugins:\n    Score:\n      enabled: [{name: gpu-usage, weight: 1}]\n"
      "      disabled: [{name: gpu-usage}, {name: x, weight: -1}, {name: kvcache-aware}]\n"
      "    Filter:\n      enabled: [a, a]\n      disabled: [a, kvcache-aware]\n");
  REQUIRE(outcome.config);
  CHECK(outcome.config->pipeline.scores.size() == 1);
  CHECK(outcome.config->pipeline.filters == std::vector<std::string>{"a", "a"});
  CHECK(outcome.diagnostics.empty());
  CHECK_FALSE(parse("scheduler: {plugins: {Filter: {disabled: [{a: b}]}}}").config);
  CHECK_FALSE(parse("scheduler: {plugins: {Score: {disabled: [a]}}}").config);
}

TEST_CASE("shape errors name the place", "[router_config]") {
  const auto says = [](const std::string& text, const std::string& detail) {
    const auto outcome = parse(text);
    CHECK_FALSE(outcome.config);
    CHECK(outcome.error == shape_prefix + detail);
  };
  says("[1, 2]", "r.yaml:1:1: must be a mapping, got a list");
  says("juniper", "r.yaml:1:1: must be a mapping, got the string \"juniper\"");
  says("scheduler: umber", "r.yaml:1:12: scheduler: must be a mapping, got the string \"umber\"");
  says("scheduler:\n  plugins:\n    Filter:\n      enabled: x",
       "r.yaml:4:16: scheduler.plugins.Filter.enabled: must be a list, got the string \"x\"");
  says("scheduler:\n  plugins:\n    Filter:\n      enabled: [{name: x}]",
       "r.yaml:4:17: scheduler.plugins.Filter.enabled[0]: must be a string, got a mapping");
  says("scheduler:\n  pluginConfig: [x]", "plugin configuration must be a mapping");
  says("scheduler:\n  pluginConfig: [[x]]", "plugin configuration must be a mapping");
  says("scheduler:\n  pluginConfig: [{name: [a]}]", "decode plugin name: must be a string, got a list");
  says("scheduler:\n  pluginConfig: [{name: {a: b}}]", "decode plugin name: must be a string, got a mapping");
  says("auth:\n  audiences: falcon", "r.yaml:2:14: auth.audiences: must be a list, got the string \"falcon\"");
  says("a: 1\nauth: {}\nauth: {}", "r.yaml:3:1: auth: key is already there in line 2");
  // a fixed text does not hide an earlier error
  says("scheduler:\n  plugins: []\n  pluginConfig: [x]",
       "r.yaml:2:12: scheduler.plugins: must be a mapping, got a list");
  CHECK(parse("scheduler:\n\tplugins: {}").error.starts_with(shape_prefix + "r.yaml:2:"));
  CHECK(parse("scheduler: {plugins").error.starts_with(shape_prefix + "r.yaml:"));
  CHECK(parse("a: \"\xff\"").error.starts_with(shape_prefix + "r.yaml:1: not UTF-8"));
  CHECK(parse("scheduler: *gone").error.starts_with(shape_prefix + "r.yaml:1:"));
  // what does not parse is told before what does not load
  says("scheduler:\n  plugins:\n    Score: {enabled: [{name: x}]}\nauth: []",
       "r.yaml:4:7: auth: must be a mapping, got a list");
}

TEST_CASE("configurations without content enable nothing", "[router_config]") {
  for (const auto* text :
       {"", "\n\n", "# comment\n", "---\n", "null", "{}", "scheduler:", "scheduler: null\nauth: null",
        "scheduler:\n  pluginConfig: []\n  plugins: {}", "scheduler: !custom {plugins: {}}"}) {
    CAPTURE(text);
    const auto outcome = parse(text);
    REQUIRE(outcome.config);
    CHECK(outcome.config->pipeline.scores.empty());
    CHECK(outcome.config->pipeline.filters.empty());
    CHECK(outcome.config->pipeline.args.empty());
    CHECK(outcome.diagnostics.empty());
  }
}

TEST_CASE("keys in the wrong case and unknown keys are warnings with their place", "[router_config]") {
  const auto outcome = parse("scheduler:\n  plugins:\n    filter: {enabled: [x]}\nScheduler: {}\n");
  REQUIRE(outcome.config);
  CHECK(outcome.config->pipeline.filters.empty());
  REQUIRE(outcome.diagnostics.size() == 2);
  CHECK_FALSE(has_errors(outcome.diagnostics));
  CHECK(outcome.diagnostics[0].text() == "r.yaml:3:5: scheduler.plugins.filter: unknown field");
  CHECK(outcome.diagnostics[1].text() == "r.yaml:4:1: Scheduler: unknown field");
}

TEST_CASE("least-latency arguments are validated, enabled or not", "[router_config]") {
  const auto says = [](const std::string& args, const std::string& why) {
    const auto outcome = with_factor(args);
    CHECK_FALSE(outcome.config);
    CHECK(outcome.error == latency_prefix + why);
  };
  const std::string range = "TTFTTPOTWeightFactor must be a finite value between 0 and 1, got ";
  says("{TTFTTPOTWeightFactor: 1.7}", range + "1.7");
  says("{TTFTTPOTWeightFactor: -0.86}", range + "-0.86");
  says("{ttfttpotweightfactor: 2}", range + "2");
  says("{TTFTTPOTWeightFactor: .nan}", range + "NaN");
  says("{TTFTTPOTWeightFactor: .inf}", range + "+Inf");
  says("{TTFTTPOTWeightFactor: -.inf}", range + "-Inf");
  says("{TTFTTPOTWeightFactor: 1e20}", range + "100000000000000000000");
  says("{TTFTTPOTWeightFactor: 1e21}", range + "1e+21");
  says("{TTFTTPOTWeightFactor: -0.00001}", range + "-1e-05");
  for (const auto* args : {"{TTFTTPOTWeightFactor: \"0.5\"}", "{TTFTTPOTWeightFactor: high}", "[0.5]", "7", "text",
                           "{TTFTTPOTWeightFactor: true}"}) {
    CAPTURE(args);
    const auto outcome = with_factor(args);
    CHECK_FALSE(outcome.config);
    CHECK(outcome.error.starts_with(latency_prefix + "unmarshal least-latency arguments: "));
  }
  for (const auto* args : {"{}", "null", "", "{TTFTTPOTWeightFactor: 0}", "{TTFTTPOTWeightFactor: 1}",
                           "{TTFTTPOTWeightFactor: null}", "{TTFTTPOTWeightFactor: 7, ttfttpotweightfactor: 0.25}"}) {
    CAPTURE(args);
    CHECK(with_factor(args).config);
  }
  // the last block of a name counts
  CHECK(parse("scheduler:\n  pluginConfig:\n  - {name: least-latency, args: 5}\n  - {name: least-latency}\n").config);
}

TEST_CASE("what this build cannot honour stops the start", "[router_config]") {
  CHECK(parse("auth: {jwksUri: 'https://x'}").error == "auth is not supported by this build");
  const auto fine = parse("auth: {issuer: i, audiences: [a, 7], jwksUri: ''}");
  REQUIRE(fine.config);
  CHECK(fine.config->issuer == "i");
  CHECK(fine.config->audiences == std::vector<std::string>{"a", "7"});
  CHECK(with_scores("{name: kvcache-aware, weight: 2}").error == "kvcache-aware is not supported by this build");
  CHECK(parse("scheduler: {plugins: {Filter: {enabled: [kvcache-aware]}}}").error ==
        "kvcache-aware is not supported by this build");
  // arguments of a plugin that is not enabled protect nothing
  CHECK(parse("scheduler: {pluginConfig: [{name: kvcache-aware, args: {}}]}").config);
  CHECK(parse("auth: {audiences: [kvcache-aware]}").config);
}

TEST_CASE("compat can stand in the file", "[router_config]") {
  CHECK(parse("compat: kthena").config->compat_kthena);
  CHECK_FALSE(parse("compat: none").config->compat_kthena);
  CHECK_FALSE(parse("compat:").config->compat_kthena);
  CHECK(parse("compat: other").error == shape_prefix + "r.yaml:1:9: compat: must be kthena or none, got \"other\"");
  CHECK(parse("compat: kthena").diagnostics.empty());
}

TEST_CASE("the threshold below which decode pods work alone", "[router_config][pd]") {
  CHECK(parse("").config->pd_threshold_tokens == 0);
  const auto given = parse("pdThresholdTokens: 64");
  CHECK(given.config->pd_threshold_tokens == 64);
  CHECK(given.diagnostics.empty());
  CHECK_FALSE(parse("pdThresholdTokens: -1").config);
  CHECK_FALSE(parse("pdThresholdTokens: many").config);
}

TEST_CASE("aliases and merge keys give arguments", "[router_config]") {
  const auto outcome = parse(
      "x: &a {maxWaitingRequests: 9}\ny: &b {args: *a}\nscheduler:\n  pluginConfig:\n  - name: one\n    args: *a\n"
      "  - <<: *b\n    name: two\n");
  REQUIRE(outcome.config);
  CHECK(**outcome.config->pipeline.args.at("one").integer("maxWaitingRequests") == 9);
  CHECK(**outcome.config->pipeline.args.at("two").integer("maxWaitingRequests") == 9);
  CHECK(outcome.diagnostics.empty());  // keys that only carry an anchor are used
}

TEST_CASE("only the first document is read", "[router_config]") {
  const auto outcome = parse("compat: kthena\n---\ncompat: nonsense\n");
  REQUIRE(outcome.config);
  CHECK(outcome.config->compat_kthena);
  REQUIRE(outcome.diagnostics.size() == 1);
  CHECK(outcome.diagnostics[0].severity == Diagnostic::Severity::warning);
  CHECK(outcome.diagnostics[0].line == 3);
}

TEST_CASE("reading the file", "[router_config]") {
  CHECK(load_router_config("/nonexistent/r.yaml").error ==
        "failed to parse router config: failed to read config file /nonexistent/r.yaml: open /nonexistent/r.yaml: no "
        "such file or directory");
  CHECK(load_router_config("/tmp").error ==
        "failed to parse router config: failed to read config file /tmp: read /tmp: is a directory");
  CHECK_FALSE(load_router_config("/dev/zero").config);  // bounded
  const auto outcome = load_router_config(WR_SOURCE_DIR "/config/routerConfiguration.yaml");
  REQUIRE(outcome.config);
  CHECK(outcome.config->pipeline.scores.size() == 4);
}

TEST_CASE("hostile configurations end with an error", "[router_config]") {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  char previous = 'a';
  for (char name = 'b'; name <= 'k'; ++name) {
    bomb += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 9; ++i) bomb += std::string(i == 0 ? "*" : ",*") + previous;
    bomb += "]\n";
    previous = name;
  }
  bomb += "scheduler: {pluginConfig: [{name: x, args: *k}]}\n";
  CHECK(parse(bomb).error.starts_with(shape_prefix));
  CHECK(parse(std::string(100000, '[')).error.starts_with(shape_prefix));
  std::string deep = "a:";
  for (int i = 0; i < 5000; ++i) deep += "\n" + std::string(static_cast<std::size_t>(i) + 1, ' ') + "a:";
  CHECK(parse(deep).error.starts_with(shape_prefix));
  CHECK(parse("&a [*a]").error.starts_with(shape_prefix));
}
