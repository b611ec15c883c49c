#include "config/resource_docs.hpp"

#include <simdjson.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

namespace config = warmroute::config;
namespace model = warmroute::model;

namespace {

struct Parsed {
  config::ResourceDocuments documents;
  config::Diagnostics diagnostics;
};

Parsed parse(const std::string& text, std::uint64_t base = 0) {
  Parsed result;
  config::parse_resource_documents(text, "r.yaml", base, result.documents, result.diagnostics);
  return result;
}

std::string all_text(const config::Diagnostics& diagnostics) {
  std::string out;
  for (const auto& each : diagnostics) {
    out += each.severity == config::Diagnostic::Severity::error ? "error " : "warning ";
    out += each.text() + "\n";
  }
  return out;
}

/// A ModelRoute document around a spec in flow style.
std::string route(const std::string& spec) {
  return "apiVersion: networking.serving.volcano.sh/v1alpha1\nkind: ModelRoute\nmetadata: {name: r}\nspec: " + spec +
         "\n";
}
std::string server(const std::string& spec) {
  return "apiVersion: networking.serving.volcano.sh/v1alpha1\nkind: ModelServer\nmetadata: {name: s}\nspec: " + spec +
         "\n";
}
std::string pod(const std::string& rest) {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {app: x}}\n" + rest;
}
std::string static_pods(const std::string& endpoints) {
  return "apiVersion: warmroute.dev/v1alpha1\nkind: StaticPods\nmetadata: {name: box}\nspec:\n  labels: {app: x}\n"
         "  endpoints: " +
         endpoints + "\n";
}

model::ModelRoute good_route(const std::string& spec) {
  auto result = parse(route(spec));
  INFO(all_text(result.diagnostics));
  REQUIRE(result.diagnostics.empty());
  REQUIRE(result.documents.routes.size() == 1);
  return result.documents.routes[0];
}
model::ModelServer good_server(const std::string& spec) {
  auto result = parse(server(spec));
  INFO(all_text(result.diagnostics));
  REQUIRE(result.diagnostics.empty());
  REQUIRE(result.documents.servers.size() == 1);
  return result.documents.servers[0];
}
model::Pod good_pod(const std::string& rest) {
  auto result = parse(pod(rest));
  INFO(all_text(result.diagnostics));
  REQUIRE(result.diagnostics.empty());
  REQUIRE(result.documents.pods.size() == 1);
  return result.documents.pods[0];
}

/// The only error of the text, as PATH: MESSAGE; nothing may come out of the file.
std::string only_error(const std::string& text) {
  const auto result = parse(text);
  INFO(all_text(result.diagnostics));
  REQUIRE(std::count_if(result.diagnostics.begin(), result.diagnostics.end(),
                        [](const auto& each) { return each.severity == config::Diagnostic::Severity::error; }) == 1);
  CHECK(result.documents.routes.empty());
  CHECK(result.documents.servers.empty());
  CHECK(result.documents.pods.empty());
  CHECK(result.documents.static_pods.empty());
  for (const auto& each : result.diagnostics) {
    if (each.severity != config::Diagnostic::Severity::error) continue;
    CHECK(each.file == "r.yaml");
    CHECK(each.line > 0);
    CHECK(each.column > 0);
    return each.path + ": " + each.message;
  }
  return {};
}

const std::string minimal_server =
    "{inferenceEngine: vLLM, workloadSelector: {matchLabels: {app: x}}, workloadPort: {port: 8000}}";

}  // namespace

TEST_CASE("ModelRoute: everything, with defaults", "[resources]") {
  const auto r = good_route(R"({
    modelName: m, loraAdapters: [l1, l2],
    parentRefs: [{name: gw, sectionName: http, port: 80}],
    rules: [
      {name: a, modelMatch: {headers: {x-b: {exact: v}, x-a: {regex: "a<b"}}, uri: {prefix: /v1}, body: {model: b}},
       targetModels: [{modelServerName: s1, weight: 70}, {modelServerName: s2}]},
      {targetModels: [{modelServerName: s3, weight: 0}, {modelServerName: s4}]}],
    rateLimit: {inputTokensPerUnit: 10, global: {redis: {address: "r:6379"}}}})");
  CHECK(r.meta.key() == "default/r");
  CHECK(r.model_name == "m");
  CHECK(r.lora_adapters == std::vector<std::string>{"l1", "l2"});
  REQUIRE(r.parent_refs.size() == 1);
  CHECK(r.parent_refs[0].kind == "Gateway");
  CHECK(r.parent_refs[0].group == "gateway.networking.k8s.io");
  CHECK(r.parent_refs[0].port == 80);
  REQUIRE(r.rules.size() == 2);
  REQUIRE(r.rules[0]->match);
  CHECK(r.rules[0]->match->headers.at("x-b")->exact == "v");
  CHECK(r.rules[0]->match->uri->prefix == "/v1");
  CHECK(r.rules[0]->match->body_model == "b");
  CHECK_FALSE(r.rules[1]->match);
  CHECK(r.rules[0]->targets[0]->weight == 70);
  CHECK(r.rules[0]->targets[1]->weight == 100);
  CHECK(r.rules[1]->targets[0]->weight == 0);
  CHECK(r.rate_limit->unit == "second");
  CHECK(r.rate_limit->redis_address == "r:6379");
  CHECK(
      r.spec_json ==
      R"({"modelName":"m","loraAdapters":["l1","l2"],)"
      R"("parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","name":"gw","sectionName":"http","port":80}],)"
      R"("rules":[{"name":"a","modelMatch":{"headers":{"x-a":{"regex":"a\u003cb"},"x-b":{"exact":"v"}},)"
      R"("uri":{"prefix":"/v1"},"body":{"model":"b"}},"targetModels":[{"modelServerName":"s1","weight":70},)"
      R"({"modelServerName":"s2","weight":100}]},{"targetModels":[{"modelServerName":"s3","weight":0},)"
      R"({"modelServerName":"s4","weight":100}]}],"rateLimit":{"inputTokensPerUnit":10,"unit":"second",)"
      R"("global":{"redis":{"address":"r:6379"}}}})");
}

TEST_CASE("ModelRoute: an empty list of rules and empty matches are allowed", "[resources]") {
  CHECK(good_route("{modelName: m, rules: []}").rules.empty());
  const auto r = good_route(
      "{loraAdapters: [l], rules: [{modelMatch: {headers: {a: {}}}, targetModels: [{modelServerName: s}]}]}");
  REQUIRE(r.rules[0]->match->headers.at("a"));
  CHECK_FALSE(r.rules[0]->match->headers.at("a")->exact);
  CHECK(r.model_name.empty());
}

TEST_CASE("ModelRoute: what the schema and the webhook refuse", "[resources]") {
  auto targets = [](const std::string& list) { return route("{modelName: m, rules: [{targetModels: " + list + "}]}"); };
  CHECK(only_error(route("{rules: []}")) == "spec: ModelName and LoraAdapters cannot both be empty");
  CHECK(only_error(route("{modelName: '', loraAdapters: [], rules: []}")) ==
        "spec: ModelName and LoraAdapters cannot both be empty");
  CHECK(only_error(route("{modelName: m}")) == "spec.rules: is required");
  CHECK(only_error(route("{modelName: m, rules: [null]}")) == "spec.rules[0]: rule must not be nil");
  CHECK(only_error(route("{modelName: m, rules: [{}]}")) == "spec.rules[0].targetModels: is required");
  CHECK(only_error(targets("[]")) == "spec.rules[0].targetModels: each rule must have at least one target model");
  CHECK(only_error(targets("[null, {modelServerName: s}]")) ==
        "spec.rules[0].targetModels[0]: target model must not be nil");
  for (const char* each : {"{}", "{modelServerName: ''}", "{modelServerName: a, externalModelProviderName: b}"}) {
    CHECK(only_error(targets(std::string("[") + each + "]")) ==
          "spec.rules[0].targetModels[0]: exactly one of modelServerName or externalModelProviderName must be set");
  }
  CHECK(only_error(route("{loraAdapters: [l], rules: [{targetModels: [{externalModelProviderName: e}]}]}")) ==
        "spec.rules[0].targetModels[0].externalModelProviderName: lora routes must target modelServerName");
  CHECK(only_error(route("{modelName: m, loraAdapters: [''], rules: []}")) ==
        "spec.loraAdapters[0]: lora adapter name cannot be an empty string");
  CHECK(only_error(route("{loraAdapters: [a,b,c,d,e,f,g,h,i,j,k], rules: []}")) ==
        "spec.loraAdapters: Too many: 11: must have at most 10 items");
  CHECK_THAT(only_error(targets("[{modelServerName: s, weight: 101}]")),
             Catch::StartsWith("spec.rules[0].targetModels[0].weight: "));
  CHECK_THAT(only_error(targets("[{modelServerName: s, weight: -1}]")),
             Catch::StartsWith("spec.rules[0].targetModels[0].weight: "));
  CHECK_THAT(only_error(targets("[{modelServerName: 5}]")), Catch::StartsWith("spec.rules[0].targetModels[0]"));
  CHECK(only_error(route("{modelName: m, rules: [], rateLimit: {unit: week}}")) ==
        "spec.rateLimit.unit: Unsupported value: the string \"week\": supported values: \"second\", \"minute\", "
        "\"hour\", "
        "\"day\", \"month\"");
  CHECK_THAT(only_error(route("{modelName: m, rules: [], rateLimit: {inputTokensPerUnit: 0}}")),
             Catch::StartsWith("spec.rateLimit.inputTokensPerUnit: "));
  CHECK(only_error(route("{modelName: m, rules: [], rateLimit: {global: {redis: {}}}}")) ==
        "spec.rateLimit.global.redis.address: is required");
  CHECK(only_error(route(
            "{modelName: m, rules: [{modelMatch: {headers: {x: null}}, targetModels: [{modelServerName: s}]}]}")) ==
        "spec.rules[0].modelMatch.headers.x: must not be null");
  CHECK_THAT(only_error(route("{modelName: m, rules: [], parentRefs: [{}]}")),
             Catch::StartsWith("spec.parentRefs[0].name: "));
  std::string many = "[{modelServerName: s}";
  for (int i = 0; i < 16; ++i) many += ", {modelServerName: s}";
  CHECK(only_error(targets(many + "]")) == "spec.rules[0].targetModels: Too many: 17: must have at most 16 items");
}

TEST_CASE("ModelRoute: weights that are all zero skip the route at run time, so they are only a warning",
          "[resources]") {
  const auto result = parse(route("{modelName: m, rules: [{targetModels: [{modelServerName: s, weight: 0}]}]}"));
  REQUIRE(result.documents.routes.size() == 1);
  CHECK(all_text(result.diagnostics) ==
        "warning r.yaml:4:45: spec.rules[0].targetModels: total weight must be greater than zero: the rule never "
        "matches\n");
}

TEST_CASE("ModelServer: everything, with defaults", "[resources]") {
  const auto least = good_server(minimal_server);
  CHECK(least.engine == model::Engine::vllm);
  CHECK(least.port == 8000);
  CHECK_FALSE(least.https);
  CHECK_FALSE(least.retry);
  CHECK_FALSE(least.timeout);
  CHECK_FALSE(least.kv_connector);
  CHECK(
      least.spec_json ==
      R"({"inferenceEngine":"vLLM","workloadSelector":{"matchLabels":{"app":"x"}},"workloadPort":{"port":8000,"protocol":"http"}})");

  const auto s = good_server(R"({model: real, inferenceEngine: SGLang,
    workloadSelector: {matchLabels: {app: x}, pdGroup: {groupKey: g, prefillLabels: {role: p}, decodeLabels: {role: d}}},
    workloadPort: {port: 65535, protocol: https},
    trafficPolicy: {timeout: 1m30s, retry: {attempts: 2}}, kvConnector: {}})");
  CHECK(s.model == "real");
  CHECK(s.engine == model::Engine::sglang);
  CHECK(s.https);
  CHECK(s.timeout == std::chrono::seconds(90));
  REQUIRE(s.retry);
  CHECK(s.retry->attempts == 2);
  CHECK(s.retry->interval == std::chrono::milliseconds(100));
  CHECK(s.kv_connector == "http");
  REQUIRE(s.pd_group);
  CHECK(s.pd_group->decode_labels.at("role") == "d");
  CHECK(
      s.spec_json ==
      R"({"model":"real","inferenceEngine":"SGLang","workloadSelector":{"matchLabels":{"app":"x"},)"
      R"("pdGroup":{"groupKey":"g","prefillLabels":{"role":"p"},"decodeLabels":{"role":"d"}}},)"
      R"("workloadPort":{"port":65535,"protocol":"https"},)"
      R"("trafficPolicy":{"timeout":"1m30s","retry":{"attempts":2,"retryInterval":"100ms"}},"kvConnector":{"type":"http"}})");
}

TEST_CASE("ModelServer: retry and time-out corners", "[resources]") {
  auto with = [](const std::string& traffic) {
    return good_server(
        "{inferenceEngine: vLLM, workloadSelector: {matchLabels: {a: b}}, workloadPort: {port: 1}, trafficPolicy: " +
        traffic + "}");
  };
  CHECK_FALSE(with("{}").retry);
  CHECK(with("{retry: {attempts: 0}}").retry->attempts == 0);
  CHECK(with("{retry: {attempts: -3}}").retry->attempts == 0);
  // Without a number there are as many tries as candidates.
  const auto open = with("{retry: {retryInterval: 1.5s}}");
  CHECK(open.retry->attempts == std::numeric_limits<std::int32_t>::max());
  CHECK(open.retry->interval == std::chrono::milliseconds(1500));
  CHECK_FALSE(with("{timeout: 0s}").timeout);
  CHECK_FALSE(with("{timeout: -5s}").timeout);
  CHECK(with("{timeout: 1us}").timeout == std::chrono::milliseconds(1));
}

TEST_CASE("ModelServer: what the schema and the webhook refuse", "[resources]") {
  auto spec = [](const std::string& engine, const std::string& selector, const std::string& port,
                 const std::string& rest = "") {
    return server("{inferenceEngine: " + engine + ", workloadSelector: " + selector + ", workloadPort: " + port + rest +
                  "}");
  };
  const std::string sel = "{matchLabels: {a: b}}";
  const std::string port = "{port: 1}";
  CHECK_THAT(
      only_error(spec("vllm", sel, port)),
      Catch::Equals(
          "spec.inferenceEngine: Unsupported value: the string \"vllm\": supported values: \"vLLM\", \"SGLang\""));
  CHECK(only_error(server("{workloadSelector: {matchLabels: {a: b}}, workloadPort: {port: 1}}")) ==
        "spec.inferenceEngine: is required");
  CHECK(only_error(server("{inferenceEngine: vLLM, workloadPort: {port: 1}}")) == "spec.workloadSelector: is required");
  CHECK(only_error(spec("vLLM", "{}", port)) == "spec.workloadSelector.matchLabels: is required");
  CHECK(only_error(spec("vLLM", "{matchLabels: {}}", port)) ==
        "spec.workloadSelector.matchLabels: labels must contain at least one label");
  CHECK_THAT(only_error(spec("vLLM", "{matchLabels: {a: 'b c'}}", port)),
             Catch::StartsWith("spec.workloadSelector.matchLabels: invalid selector: "));
  CHECK_THAT(only_error(spec("vLLM", "{matchLabels: {a: true}}", port)),
             Catch::StartsWith("spec.workloadSelector.matchLabels.a: "));
  CHECK(only_error(spec("vLLM",
                        "{matchLabels: {a: b}, pdGroup: {groupKey: '', prefillLabels: {a: b}, decodeLabels: {a: b}}}",
                        port)) == "spec.workloadSelector.pdGroup.groupKey: groupKey must be specified");
  CHECK(only_error(spec(
            "vLLM", "{matchLabels: {a: b}, pdGroup: {groupKey: g, prefillLabels: {}, decodeLabels: {a: b}}}", port)) ==
        "spec.workloadSelector.pdGroup.prefillLabels: labels must contain at least one label");
  CHECK(only_error(spec("vLLM", sel, "{}")) == "spec.workloadPort.port: is required");
  CHECK_THAT(only_error(spec("vLLM", sel, "{port: 0}")), Catch::StartsWith("spec.workloadPort.port: "));
  CHECK_THAT(only_error(spec("vLLM", sel, "{port: 65536}")), Catch::StartsWith("spec.workloadPort.port: "));
  CHECK_THAT(only_error(spec("vLLM", sel, "{port: 1, protocol: HTTP}")),
             Catch::StartsWith("spec.workloadPort.protocol: Unsupported value"));
  CHECK_THAT(only_error(spec("vLLM", sel, port, ", kvConnector: {type: sglang}")),
             Catch::StartsWith("spec.kvConnector.type: Unsupported value"));
  CHECK_THAT(only_error(spec("vLLM", sel, port, ", trafficPolicy: {timeout: 10}")),
             Catch::StartsWith("spec.trafficPolicy.timeout: "));
  CHECK_THAT(only_error(spec("vLLM", sel, port, ", trafficPolicy: {timeout: 10x}")),
             Catch::StartsWith("spec.trafficPolicy.timeout: must be a duration"));
  CHECK(only_error(spec("vLLM", sel, port, ", model: " + std::string(257, 'm'))) ==
        "spec.model: Too long: must have at most 256 characters");
  std::string wide;
  for (int i = 0; i < 256; ++i) wide += "ü";
  CHECK(good_server(
            "{inferenceEngine: vLLM, workloadSelector: {matchLabels: {a: b}}, workloadPort: {port: 1}, model: " + wide +
            "}")
            .model == wide);
}

TEST_CASE("Pod: ready without phase and conditions, and as they say when given", "[resources]") {
  CHECK(good_pod("status: {podIP: 10.0.0.1}\n").ready);
  CHECK(good_pod("status: {podIP: '2001:db8::1'}\n").ip == "2001:db8::1");
  CHECK(good_pod("status: {podIP: 10.0.0.1, phase: Running}\n").ready);
  CHECK(good_pod("status: {podIP: 10.0.0.1, conditions: [{type: Ready, status: 'True'}]}\n").ready);
  CHECK(good_pod("status: {podIP: 10.0.0.1, conditions: [{type: Ready, status: True}]}\n").ready);
  CHECK_FALSE(good_pod("status: {podIP: 10.0.0.1, phase: Pending}\n").ready);
  CHECK(good_pod("status: {podIP: 10.0.0.1, phase: Pending}\n").phase == "Pending");
  CHECK_FALSE(good_pod("status: {podIP: 10.0.0.1, conditions: [{type: Ready, status: 'False'}]}\n").ready);
  CHECK_FALSE(good_pod("status: {podIP: 10.0.0.1, conditions: [{type: Initialized, status: 'True'}]}\n").ready);
  CHECK_FALSE(good_pod("status: {phase: Running}\n").ready);
  CHECK_FALSE(good_pod("").ready);
  const auto leaving = parse(
      "apiVersion: v1\nkind: Pod\nmetadata: {name: p, deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {podIP: "
      "10.0.0.1}\n");
  REQUIRE(leaving.documents.pods.size() == 1);
  CHECK(leaving.documents.pods[0].meta.deletion_timestamp);
  CHECK_FALSE(leaving.documents.pods[0].ready);
  CHECK_THAT(only_error(pod("status: {podIP: 10.0.0.256}\n")),
             Catch::StartsWith("status.podIP: must be an IPv4 or IPv6 address"));
}

TEST_CASE("Pod: the start of the engine container, not of a helper", "[resources]") {
  const std::string rest = R"(spec:
  nodeName: n1
  containers: [{name: engine, image: i}, {name: agent, image: j, unknownHere: 1}]
status:
  podIP: 10.0.0.1
  startTime: "2025-12-31T00:00:00Z"
  containerStatuses:
  - {name: agent, state: {running: {startedAt: "2026-01-09T00:00:00Z"}}}
  - {name: engine, state: {running: {startedAt: "2026-01-01T00:00:00Z"}}}
)";
  const auto plain = good_pod(rest);
  CHECK(plain.container_start == "2026-01-01T00:00:00Z");
  CHECK(plain.node_name == "n1");
  CHECK(plain.start_time == "2025-12-31T00:00:00Z");
  const std::string head =
      "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {warmroute.dev/engine-container: ";
  const auto named = parse(head + "agent, other: x}}\n" + rest);
  CHECK(all_text(named.diagnostics).empty());
  CHECK(named.documents.pods.at(0).container_start == "2026-01-09T00:00:00Z");
  const auto wrong = parse(head + "nobody}}\n" + rest);
  CHECK_FALSE(wrong.documents.pods.at(0).container_start);
  CHECK_THAT(all_text(wrong.diagnostics), Catch::Contains("names no container"));
  CHECK_FALSE(good_pod("status: {podIP: 10.0.0.1, containerStatuses: [{name: e, state: {waiting: {reason: x}}}]}\n")
                  .container_start);
}

TEST_CASE("StaticPods: endpoints", "[resources]") {
  const auto result =
      parse(static_pods("[10.0.0.5:8000, 10.0.0.5:8001, \"engine-a.local:8000\", \"[2001:db8::1]:80\", a_b:1]"));
  INFO(all_text(result.diagnostics));
  REQUIRE(result.diagnostics.empty());
  const auto& box = result.documents.static_pods.at(0);
  CHECK(box.meta.name == "box");
  CHECK(box.labels.at("app") == "x");
  REQUIRE(box.endpoints.size() == 5);
  CHECK(box.endpoints[0].host == "10.0.0.5");
  CHECK(box.endpoints[0].is_address);
  CHECK(box.endpoints[1].port == 8001);
  CHECK(box.endpoints[2].host == "engine-a.local");
  CHECK_FALSE(box.endpoints[2].is_address);
  CHECK(box.endpoints[3].host == "2001:db8::1");
  CHECK(box.endpoints[3].is_address);

  const auto bare = parse(static_pods("[host, 10.0.0.5, '[::1]']"));
  REQUIRE(bare.diagnostics.empty());
  for (const auto& endpoint : bare.documents.static_pods.at(0).endpoints) CHECK(endpoint.port == 0);
  CHECK(bare.documents.static_pods.at(0).endpoints[2].host == "::1");

  for (const char* bad :
       {"host:", "host:0", "host:65536", "host:99999999999", "host:-1", "host:8 0", "':80'", "'::1:80'", "'[::1]x'",
        "'::1'", "'[10.0.0.1]:80'", "'[::zz]:80'", "10.0.0.256:80", "'a b:80'", "'a..b:80'", "null", "80"}) {
    INFO(bad);
    CHECK_THAT(only_error(static_pods(std::string("[") + bad + "]")), Catch::StartsWith("spec.endpoints[0]: "));
  }
  CHECK_THAT(all_text(parse(static_pods("[a:1, a:1]")).diagnostics),
             Catch::Contains("spec.endpoints[1]: is listed more than once"));
  CHECK(only_error(
            "apiVersion: warmroute.dev/v1alpha1\nkind: StaticPods\nmetadata: {name: b}\nspec: {labels: {a: b}}\n") ==
        "spec.endpoints: is required");
}

TEST_CASE("metadata", "[resources]") {
  auto meta = [](const std::string& flow) {
    return "apiVersion: v1\nkind: Pod\nmetadata: " + flow + "\nstatus: {podIP: 10.0.0.1}\n";
  };
  const auto result = parse(meta("{name: a, namespace: team, uid: u, resourceVersion: '12', labels: {k: v}, "
                                 "creationTimestamp: 2026-01-02T03:04:05Z, generation: 3, managedFields: [{x: 1}]}"),
                            700);
  INFO(all_text(result.diagnostics));
  REQUIRE(result.diagnostics.empty());
  const auto& m = result.documents.pods.at(0).meta;
  CHECK(m.key() == "team/a");
  CHECK(m.uid == "u");
  CHECK(m.resource_version == "12");
  CHECK(m.labels.at("k") == "v");
  CHECK(m.creation_timestamp == 1767323045);
  CHECK(m.position == 700);
  auto created = [&](const std::string& time) {
    return parse(meta("{name: a, creationTimestamp: '" + time + "'}")).documents.pods.at(0).meta.creation_timestamp;
  };
  CHECK(created("2026-01-02T04:04:05.123456+01:00") == 1767323045);
  CHECK(created("1970-01-01T00:00:00Z") == 0);
  CHECK_FALSE(parse(meta("{name: a, creationTimestamp: null}")).documents.pods.at(0).meta.creation_timestamp);
  CHECK(parse(meta("{name: a, namespace: ''}")).documents.pods.at(0).meta.ns == "default");
  for (const char* bad : {"2026-01-02", "2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z", "2026-01-02T03:04:05",
                          "2026-01-02T03:04:05.Z", "2026-01-02T25:04:05Z", "2026-01-02T03:04:05+0100", "x"}) {
    INFO(bad);
    CHECK_THAT(only_error(meta(std::string("{name: a, creationTimestamp: '") + bad + "'}")),
               Catch::StartsWith("metadata.creationTimestamp: "));
  }
  CHECK(only_error(meta("{}")) == "metadata.name: is required");
  for (const char* bad : {"A", "a_b", "a/b", "-a", "a-", "a..b", "''"}) {
    INFO(bad);
    CHECK_THAT(only_error(meta(std::string("{name: ") + bad + "}")), Catch::StartsWith("metadata.name: "));
  }
  CHECK_THAT(only_error(meta("{name: 5}")), Catch::StartsWith("metadata.name: "));
  CHECK_THAT(only_error(meta("{name: a, namespace: a.b}")), Catch::StartsWith("metadata.namespace: "));
}

TEST_CASE("documents: order, lists, unknown and later kinds, unknown fields", "[resources]") {
  const auto result =
      parse("---\n# nothing\n---\n" + route("{modelName: a, rules: []}") + "---\n" +
                "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: b}\n---\n" +
                "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {replicas: 1}\n---\n" +
                "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n"
                "- apiVersion: v1\n  kind: Pod\n  metadata: {name: p1}\n  status: {podIP: 10.0.0.1, podIp: 10.0.0.2}\n"
                "- apiVersion: v1\n  kind: Pod\n  metadata: {name: p2}\n  status: {podIP: 10.0.0.2}\n",
            100);
  CHECK(all_text(result.diagnostics) ==
        "warning r.yaml:10:7: kind: Secret is not supported by this build; the document is ignored\n"
        "warning r.yaml:15:7: kind: unknown kind Deployment; the document is ignored\n"
        "warning r.yaml:26:29: items[0].status.podIp: unknown field\n");
  REQUIRE(result.documents.routes.size() == 1);
  REQUIRE(result.documents.pods.size() == 2);
  CHECK(result.documents.routes[0].meta.position == 100);
  CHECK(result.documents.pods[0].meta.position == 103);
  CHECK(result.documents.pods[1].meta.position == 104);
}

TEST_CASE("documents: errors", "[resources]") {
  CHECK(only_error("metadata: {name: a}\n") == "kind: is required");
  CHECK(only_error("kind: ModelServer\nmetadata: {name: a}\nspec: {}\n") == "apiVersion: is required");
  CHECK_THAT(
      only_error("apiVersion: networking.serving.volcano.sh/v1\nkind: ModelServer\nmetadata: {name: a}\nspec: {}\n"),
      Catch::StartsWith("apiVersion: must be networking.serving.volcano.sh/v1alpha1 for a ModelServer"));
  CHECK(only_error("apiVersion: networking.serving.volcano.sh/v1alpha1\nkind: ModelServer\nmetadata: {name: a}\n") ==
        "spec: is required");
  CHECK(parse("just text\n").documents.pods.empty());
  CHECK(config::has_errors(parse("just text\n").diagnostics));
  CHECK(config::has_errors(parse("a: [1\n").diagnostics));
  // One wrong document spoils its file, not what was there before.
  Parsed both;
  config::parse_resource_documents(server(minimal_server), "a.yaml", 0, both.documents, both.diagnostics);
  config::parse_resource_documents(server(minimal_server) + "---\n" + route("{rules: []}"), "b.yaml", 100,
                                   both.documents, both.diagnostics);
  CHECK(both.documents.servers.size() == 1);
  CHECK(both.documents.routes.empty());
  REQUIRE(both.diagnostics.size() == 1);
  CHECK(both.diagnostics[0].text() == "b.yaml:9:7: spec: ModelName and LoraAdapters cannot both be empty");
  CHECK_THAT(all_text(parse(server(minimal_server) + "---\n" + server(minimal_server)).diagnostics),
             Catch::Contains("ModelServer default/s is defined more than once"));
}

TEST_CASE("an empty text has no documents", "[resources]") {
  for (const char* text : {"", "# only a comment\n", "---\n", "---\n---\n"}) {
    const auto result = parse(text);
    CHECK(result.diagnostics.empty());
    CHECK(result.documents.routes.empty());
  }
}

TEST_CASE("what a real API server accepted is accepted here", "[resources][golden]") {
  std::size_t texts = 0;
  for (const char* name : {"errors", "success", "dynamics", "debug"}) {
    simdjson::dom::parser parser;
    const std::string path = std::string(WR_SOURCE_DIR "/tests/golden/http/") + name + ".jsonl";
    simdjson::dom::document_stream stream;
    REQUIRE(parser.load_many(path, 8U << 20U).get(stream) == simdjson::SUCCESS);
    for (auto record : stream) {
      simdjson::dom::array world;
      if (record["world"].get(world) != simdjson::SUCCESS) continue;
      for (const auto& item : world) {
        std::string_view text;
        if (item.get(text) != simdjson::SUCCESS) continue;
        ++texts;
        const auto result = parse(std::string(text));
        INFO(path << "\n" << text << "\n" << all_text(result.diagnostics));
        CHECK_FALSE(config::has_errors(result.diagnostics));
      }
    }
  }
  CHECK(texts > 300);
}

TEST_CASE("the spec reads on the debug pages as in the recordings", "[resources][golden]") {
  simdjson::dom::parser parser;
  simdjson::dom::element mix;
  REQUIRE(parser.load(WR_SOURCE_DIR "/tests/golden/http/metrics-mix.json").get(mix) == simdjson::SUCCESS);
  Parsed world;
  for (const auto& item : mix["world"].get_array()) {
    std::string_view text;
    REQUIRE(item.get(text) == simdjson::SUCCESS);
    config::parse_resource_documents(text, "world", 0, world.documents, world.diagnostics);
  }
  INFO(all_text(world.diagnostics));
  CHECK(world.diagnostics.empty());

  simdjson::dom::parser records;
  simdjson::dom::document_stream stream;
  REQUIRE(records.load_many(WR_SOURCE_DIR "/tests/golden/http/debug.jsonl").get(stream) == simdjson::SUCCESS);
  std::string bodies;
  for (auto record : stream) {
    std::string_view body;
    if (record["body"].get(body) == simdjson::SUCCESS) bodies.append(body).push_back('\n');
  }
  int checked = 0;
  auto check = [&](const model::ObjectMeta& meta, const std::string& spec) {
    const std::string head = "\"name\":\"" + meta.name + "\",\"namespace\":\"" + meta.ns + "\",\"spec\":";
    if (bodies.find(head) == std::string::npos) return;
    ++checked;
    INFO(head << spec);
    CHECK(bodies.find(head + spec) != std::string::npos);
  };
  for (const auto& each : world.documents.routes) check(each.meta, each.spec_json);
  for (const auto& each : world.documents.servers) check(each.meta, each.spec_json);
  CHECK(checked >= 9);
}
