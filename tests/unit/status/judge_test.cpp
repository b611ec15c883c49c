#include "status/judge.hpp"

#include <catch2/catch.hpp>

#include "config/resource_docs.hpp"
#include "model/store.hpp"

using namespace warmroute;
using namespace warmroute::status;

namespace {

constexpr const char* group = "apiVersion: networking.serving.volcano.sh/v1alpha1\n";

std::string server(const std::string& name, const std::string& more = "") {
  return "---\n" + std::string(group) + "kind: ModelServer\nmetadata: {name: " + name + ", uid: u-" + name +
         ", resourceVersion: '7'}\nspec:\n  inferenceEngine: vLLM\n  workloadPort: {port: 8000}\n"
         "  workloadSelector:\n    matchLabels: {app: " +
         name + ", tier: gpu}\n" + more;
}
std::string route(const std::string& name, const std::string& targets, const std::string& more = "") {
  return "---\n" + std::string(group) + "kind: ModelRoute\nmetadata: {name: " + name + "}\nspec:\n  modelName: m-" +
         name + "\n  rules:\n  - targetModels: [" + targets + "]\n" + more;
}
std::string pod(const std::string& name, const std::string& app, const std::string& labels, bool ready) {
  return "---\napiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", labels: {app: " + app + ", tier: gpu" +
         labels + "}}\nstatus:\n  podIP: 10.0.0.1\n  phase: Running\n  conditions: [{type: Ready, status: '" +
         (ready ? "True" : "False") + "'}]\n";
}

/// "type=status reason: message" of each condition of the object.
std::vector<std::string> judged(const std::string& documents, const std::string& name) {
  config::ResourceDocuments parsed;
  config::Diagnostics problems;
  config::parse_resource_documents(documents, "test", 0, parsed, problems);
  REQUIRE_FALSE(config::has_errors(problems));
  model::Store store({});
  store.replace({parsed.routes, parsed.servers, parsed.pods});
  std::vector<std::string> out;
  for (const auto& verdict : judge(store.resources(), *store.snapshot())) {
    if (verdict.name != name) continue;
    for (const auto& c : verdict.conditions)
      out.push_back(c.type + (c.is_true ? "=True " : "=False ") + c.reason + ": " + c.message);
  }
  return out;
}
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("A ModelServer is ready with a pod that is", "[status]") {
  CHECK(judged(server("a") + pod("p", "a", "", true), "a") == Lines{"Ready=True Ready: ready pods take requests"});
  CHECK(judged(server("a") + pod("p", "a", "", false) + pod("q", "b", "", true), "a") ==
        Lines{"Ready=False NoReadyPods: there are pods with the labels app=a,tier=gpu, but none is ready"});
  CHECK(judged(server("a") + pod("q", "b", "", true), "a") ==
        Lines{"Ready=False NoPodSelected: no pod in namespace default has the labels app=a,tier=gpu"});
}

TEST_CASE("A ModelServer with a PD group needs a pod of each role", "[status]") {
  const std::string pd = server("a", "    pdGroup: {groupKey: g, prefillLabels: {role: p}, decodeLabels: {role: d}}\n");
  const auto prefill = pod("p", "a", ", g: one, role: p", true);
  CHECK(judged(pd + prefill + pod("d", "a", ", g: one, role: d", true), "a") ==
        Lines{"Ready=True Ready: ready pods take requests"});
  const Lines incomplete{
      "Ready=False NoCompleteGroup: no value of the label g has a ready prefill pod and a ready decode pod"};
  CHECK(judged(pd + prefill + pod("d", "a", ", g: two, role: d", true), "a") == incomplete);
  CHECK(judged(pd + prefill, "a") == incomplete);
}

TEST_CASE("A ModelRoute is ready with a server that is", "[status]") {
  const auto good = server("a") + pod("p", "a", "", true);
  const std::string refs = "ResolvedRefs=True ResolvedRefs: every ModelServer that the rules name exists";
  CHECK(judged(good + route("r", "{modelServerName: a}"), "r") == Lines{refs, "Ready=True Ready: requests are routed"});
  CHECK(judged(server("a") + route("r", "{modelServerName: a}"), "r") ==
        Lines{refs, "Ready=False NoReadyPods: none of its ModelServers has a ready pod"});
  CHECK(judged(good + server("b") + route("r", "{modelServerName: a}, {modelServerName: b}"), "r").back() ==
        "Ready=True Ready: requests are routed");
  CHECK(judged(good + route("r", "{modelServerName: a}, {modelServerName: c}"), "r") ==
        Lines{"ResolvedRefs=False ModelServerNotFound: there is no ModelServer default/c",
              "Ready=True Ready: requests are routed"});
  CHECK(judged(route("r", "{modelServerName: b}, {modelServerName: c}"), "r") ==
        Lines{"ResolvedRefs=False ModelServerNotFound: there is no ModelServer default/b and no ModelServer default/c",
              "Ready=False ModelServerNotFound: there is no ModelServer default/b and no ModelServer default/c"});
  CHECK(judged(good + route("r", "{externalModelProviderName: e}"), "r").back() ==
        "Ready=False NotSupported: externalModelProviderName is not supported by this build; requests for it are "
        "answered 503");
}

TEST_CASE("A verdict names the object that it is about", "[status]") {
  config::ResourceDocuments parsed;
  config::Diagnostics problems;
  config::parse_resource_documents(server("a"), "test", 0, parsed, problems);
  model::Store store({});
  store.replace({parsed.routes, parsed.servers, parsed.pods});
  const auto verdicts = judge(store.resources(), *store.snapshot());
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].kind == Kind::model_server);
  CHECK(verdicts[0].ns == "default");
  CHECK(verdicts[0].uid == "u-a");
  CHECK(verdicts[0].spec != 0);
  const std::string same = R"({"metadata":{"namespace":"x","name":"a"},"spec":{"workloadPort":{"port":8000},)"
                           R"("workloadSelector":{"matchLabels":{"tier":"gpu","app":"a"}},"inferenceEngine":)";
  CHECK(fingerprint(Kind::model_server, same + R"("vLLM"}})") == verdicts[0].spec);
  CHECK(fingerprint(Kind::model_server, same + R"("SGLang"}})") != verdicts[0].spec);
  CHECK(fingerprint(Kind::model_server, same + R"("other"}})") == 0);
}

TEST_CASE("A message is as long as the API server takes it", "[status]") {
  std::string targets;
  for (int i = 0; i < 12; ++i)
    targets += std::string(i == 0 ? "" : ", ") + "{modelServerName: " + std::string(120, 'x') + std::to_string(i) + "}";
  const auto lines = judged(route("r", targets), "r");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].size() == std::string("ResolvedRefs=False ModelServerNotFound: ").size() + 1024);
  CHECK(limited(std::string(1024, 'a')).size() == 1024);
  CHECK(limited(std::string(1023, 'a') + "é") == std::string(1023, 'a'));
  CHECK(limited(std::string(1022, 'a') + "éb") == std::string(1022, 'a') + "é");
}

TEST_CASE("An object that cannot be used is not ready", "[status]") {
  const Verdict verdict = judge_unusable(Kind::model_server, "ns/s", "u", "spec.x: is wrong");
  CHECK(verdict.ns == "ns");
  CHECK(verdict.name == "s");
  CHECK(verdict.uid == "u");
  CHECK(verdict.spec == fingerprint(Kind::model_server, R"({"metadata":{"name":"s"},"spec":{}})"));
  REQUIRE(verdict.conditions.size() == 1);
  CHECK_FALSE(verdict.conditions[0].is_true);
  CHECK(verdict.conditions[0].reason == "Invalid");
  CHECK(verdict.conditions[0].message == "spec.x: is wrong");
}
