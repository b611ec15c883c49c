#include "admin/pages.hpp"

#include <simdjson.h>

#include <catch2/catch.hpp>
#include <fstream>

using namespace warmroute;
using namespace warmroute::admin;

namespace {

model::ModelServer server(const char* name, const char* app, const char* spec) {
  model::ModelServer result;
  result.meta.ns = "golden";
  result.meta.name = name;
  result.selector = {{"app", app}};
  result.port = 8000;
  result.spec_json = spec;
  return result;
}

model::Pod pod(const char* name, model::Labels labels, const char* ip) {
  model::Pod result;
  result.meta.ns = "golden";
  result.meta.name = name;
  result.meta.labels = std::move(labels);
  result.ip = ip;
  result.node_name = "n1";
  return result;
}

/// The part of the recorded world that the single-object pages are about.
model::ResourceSet recorded_world() {
  model::ResourceSet set;
  model::ModelRoute route;
  route.meta.ns = "golden";
  route.meta.name = "mr-a";
  route.model_name = "m-a";
  route.spec_json =
      R"({"modelName":"m-a","loraAdapters":["lora-a1","lora-a2"],"rules":[{"name":"default","targetModels":[{"modelServerName":"ms-a","weight":100}]}]})";
  set.routes.push_back(route);
  route.meta.name = "mr-rl";
  route.spec_json =
      R"({"modelName":"m-rl","rules":[{"name":"default","targetModels":[{"modelServerName":"ms-a","weight":100}]}],"rateLimit":{"inputTokensPerUnit":10,"unit":"hour"}})";
  set.routes.push_back(route);
  set.servers.push_back(server(
      "ms-a", "a",
      R"({"model":"real-a","inferenceEngine":"vLLM","workloadSelector":{"matchLabels":{"app":"a"}},"workloadPort":{"port":8000,"protocol":"http"}})"));
  auto pd = server(
      "ms-pd", "pd",
      R"({"model":"real-pd","inferenceEngine":"vLLM","workloadSelector":{"matchLabels":{"app":"pd"},"pdGroup":{"groupKey":"group","prefillLabels":{"role":"prefill"},"decodeLabels":{"role":"decode"}}},"workloadPort":{"port":8000,"protocol":"http"},"kvConnector":{"type":"nixl"}})");
  pd.pd_group = model::PdGroup{"group", {{"role", "prefill"}}, {{"role", "decode"}}};
  set.servers.push_back(pd);
  set.servers.push_back(server(
      "ms-none", "none",
      R"({"inferenceEngine":"vLLM","workloadSelector":{"matchLabels":{"app":"none"}},"workloadPort":{"port":8000,"protocol":"http"}})"));
  set.servers.push_back(server("ms-refuse", "refuse", "{}"));
  set.pods.push_back(pod("a-1", {{"app", "a"}}, "127.0.1.1"));
  set.pods.push_back(pod("refuse-1", {{"app", "refuse"}}, "127.0.1.90"));
  set.pods.push_back(pod("pd-p1", {{"app", "pd"}, {"group", "g1"}, {"role", "prefill"}}, "127.0.1.30"));
  set.pods.push_back(pod("pd-d1", {{"app", "pd"}, {"group", "g1"}, {"role", "decode"}}, "127.0.1.31"));
  return set;
}

void fill(model::Store& store) {
  store.replace(recorded_world());
  const auto record = [&](const char* ms, const char* key) {
    for (const auto& entry : store.snapshot()->server(ms)->pods)
      if (entry.record->key() == key) return entry.record;
    FAIL("no pod " << key);
    return std::shared_ptr<model::PodRecord>();
  };
  LoadSample sample;
  sample.kv_usage = 0.25;
  sample.waiting = 1;
  sample.running = 2;
  sample.tpot_seconds = 0.04;
  sample.ttft_seconds = 0.3;
  record("golden/ms-a", "golden/a-1")->store_sample(sample, model::Clock::now());
  store.set_loaded_models(record("golden/ms-a", "golden/a-1")->id(), {"real-a", "lora-a1"});
  store.set_loaded_models(record("golden/ms-pd", "golden/pd-p1")->id(), {"x"});
  store.set_loaded_models(record("golden/ms-pd", "golden/pd-d1")->id(), {"x"});
}

}  // namespace

TEST_CASE("debug pages answer as recorded") {
  model::Store empty({});
  model::Store filled({});
  fill(filled);
  std::ifstream in(WR_SOURCE_DIR "/tests/golden/http/debug.jsonl");
  simdjson::dom::parser parser;
  int bodies = 0, shapes = 0;
  for (std::string line; std::getline(in, line);) {
    const simdjson::padded_string copy(line);
    const simdjson::dom::element record = parser.parse(copy);
    const std::string_view path = record["path"].get_string().value();
    const std::string_view name = record["name"].get_string().value();
    CAPTURE(name);
    std::string_view note;
    (void)record["note"].get(note);  // few records have one
    const bool on_empty = note == "empty cluster";
    const Page page = debug_page(on_empty ? empty : filled, path);
    if (path.find("/debug/pprof") == 0 && path.find("trace") == std::string_view::npos) {
      CHECK(page.status == 404);  // Go's profiles are not offered
      CHECK(page.body.find("not offered") != std::string::npos);
      continue;
    }
    CHECK(page.status == static_cast<int>(record["status"].get_int64().value()));
    if (path.find("/debug/pprof") == 0) continue;
    for (const auto header : record["headers"].get_array()) {
      const std::string_view key = header.at(0).get_string().value();
      if (key == "Content-Type") CHECK(page.content_type == header.at(1).get_string().value());
      if (key == "Location") CHECK(page.location == header.at(1).get_string().value());
    }
    if (note.find("after the mix") == 0 && page.body.find("null") == std::string::npos) {
      // Lists of the whole mix: ours holds a part of it, of the same form.
      simdjson::dom::parser own;
      const simdjson::padded_string body(page.body);
      const std::string kind(path.substr(path.rfind('/') + 1));
      const simdjson::dom::array items = own.parse(body)[kind];
      simdjson::dom::array shape = record["shape"][kind];
      const simdjson::dom::object wanted = shape.at(0);
      for (const auto item : items) {
        std::vector<std::string_view> keys, wanted_keys;
        for (const auto field : item.get_object().value()) keys.push_back(field.key);
        for (const auto field : wanted) wanted_keys.push_back(field.key);
        CHECK(keys == wanted_keys);
      }
      ++shapes;
      continue;
    }
    CHECK(page.body == record["body"].get_string().value());
    ++bodies;
  }
  CHECK(bodies >= 20);
  CHECK(shapes >= 2);
}

TEST_CASE("debug lists are sorted and complete") {
  model::Store store({});
  fill(store);
  const auto pods = debug_page(store, "/debug/config_dump/pods?x=1");
  CHECK(pods.status == 200);
  const auto at = [&](const char* name) { return pods.body.find("\"name\":\"" + std::string(name) + "\""); };
  CHECK(at("a-1") < at("pd-d1"));
  CHECK(at("pd-d1") < at("pd-p1"));
  CHECK(at("pd-p1") < at("refuse-1"));
  CHECK(at("refuse-1") != std::string::npos);
  CHECK(pods.body.find("podInfo") == std::string::npos);
  const auto one = debug_page(store, "/debug/config_dump/modelservers/");
  CHECK(one.status == 301);
  CHECK(debug_page(store, "/debug/config_dump/namespaces//pods/a-1").status == 400);
  CHECK(debug_page(store, "/debug/config_dump/namespaces/golden/pods/a-1/x").status == 404);
  CHECK(debug_page(store, "").status == 404);
}

TEST_CASE("a pod of two servers is listed once, with both") {
  auto set = recorded_world();
  auto second = set.servers[0];
  second.meta.name = "ms-b";
  set.servers.push_back(second);
  set.pods[0].start_time = "2024-05-01T10:00:00Z";
  model::Store store({});
  store.replace(set);
  const auto page = debug_page(store, "/debug/config_dump/namespaces/golden/pods/a-1");
  CHECK(page.body.find(R"("modelServers":["golden/ms-a","golden/ms-b"])") != std::string::npos);
  CHECK(page.body.find(R"("phase":"Running","startTime":"2024-05-01T10:00:00Z","labels":{"app":"a"})") !=
        std::string::npos);
}

TEST_CASE("the metrics page") {
  auto registry = metrics::Registry::create();
  registry->counter("a_total", "").inc();
  const auto page = metrics_page(*registry, "/metrics?x");
  CHECK(page.status == 200);
  CHECK(page.content_type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(page.body.find("\na_total 1\n") != std::string::npos);
  CHECK(metrics_page(*registry, "/").status == 404);
  CHECK(metrics_page(*registry, "/metrics/").status == 404);
}
