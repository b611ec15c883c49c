#include "metrics/request_metrics.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <thread>

#include "metrics/key_cache.hpp"

using namespace warmroute;
using namespace warmroute::metrics;
using namespace std::chrono_literals;

namespace {

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

model::RequestRecord served() {
  model::RequestRecord record;
  record.started = model::RequestRecord::Steady::time_point(10s);
  record.parsed = record.started + 1s;
  record.finished = record.parsed + 300ms;
  record.path_label = model::PathLabel::chat_completions;
  record.model = "m-a";
  record.model_label = "m-a";
  record.model_route = "golden/mr-a";
  record.model_server = "golden/ms-a";
  record.upstream_model = "real-a";
  record.bound = true;
  record.counted = true;
  record.status = 200;
  record.input_tokens = 9;
  record.output_tokens = 2;
  return record;
}

const std::string bound_labels = R"(backend_name="golden/ms-a",backend_type="model_server",)";

}  // namespace

TEST_CASE("a served request counts as recorded by the Go router") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  metrics->finished(served());
  metrics->finished(served());
  const auto text = registry->serialize();
  const std::string rest = R"(model_route="golden/mr-a",path="/v1/chat/completions",)";
  CHECK(has_line(text, "kthena_router_requests_total{" + bound_labels +
                           R"(error_type="successful_request",model="m-a",)" + rest +
                           R"(status_code="200",upstream_model="real-a"} 2)"));
  CHECK(has_line(text, "kthena_router_tokens_total{" + bound_labels + R"(model="m-a",)" + rest +
                           R"(token_type="input",upstream_model="real-a"} 18)"));
  CHECK(has_line(text, "kthena_router_tokens_total{" + bound_labels + R"(model="m-a",)" + rest +
                           R"(token_type="output",upstream_model="real-a"} 4)"));
  // The clock starts after the upload: 0.3 s, not 1.3 s.
  const std::string duration = "kthena_router_request_duration_seconds";
  const std::string duration_labels =
      bound_labels + R"(model="m-a",)" + rest + R"(status_code="200",upstream_model="real-a")";
  CHECK(has_line(text, duration + "_bucket{" + duration_labels + R"(,le="0.25"} 0)"));
  CHECK(has_line(text, duration + "_bucket{" + duration_labels + R"(,le="0.5"} 2)"));
  CHECK(has_line(text, duration + "_count{" + duration_labels + "} 2"));
}

TEST_CASE("the two phases of a pair have families of their own", "[pd]") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  const auto record = served();
  metrics->phase_took(record, Phase::prefill, 200, 0.2);
  metrics->phase_took(record, Phase::prefill, 200, 0.2);
  metrics->phase_took(record, Phase::decode, 500, 3);
  const auto text = registry->serialize();
  const std::string labels = R"({model="m-a",path="/v1/chat/completions",status_code=)";
  CHECK(has_line(text, "kthena_router_request_prefill_duration_seconds_count" + labels + "\"200\"} 2"));
  CHECK(has_line(text, "kthena_router_request_decode_duration_seconds_count" + labels + "\"500\"} 1"));
  CHECK(text.find("decode_duration_seconds_count" + labels + "\"200\"") == std::string::npos);
}

TEST_CASE("names, types and labels of the request families are the recorded ones") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  metrics->finished(served());
  (void)metrics->active_downstream("m");
  (void)metrics->active_upstream("a/s", "a/r", "m");
  const auto text = registry->serialize();
  std::ifstream table(WR_SOURCE_DIR "/tests/golden/http/metrics-names.tsv");
  int checked = 0;
  for (std::string line; std::getline(table, line);) {
    std::istringstream columns(line);
    std::string name, type, help, labels;
    std::getline(columns, name, '\t');
    std::getline(columns, type, '\t');
    std::getline(columns, help, '\t');
    std::getline(columns, labels, '\t');
    if (text.find("# TYPE " + name + " ") == std::string::npos || name.rfind("kthena_router_", 0) != 0) continue;
    CAPTURE(name);
    CHECK(has_line(text, "# TYPE " + name + " " + type));
    // The first sample's label names, joined as in the table.
    const std::string sample = "\n" + name + (type == "histogram" ? "_count" : "");
    const auto from = text.find(sample + (labels.empty() ? " " : "{"));
    REQUIRE(from != std::string::npos);
    const auto line_end = text.find('\n', from + 1);
    std::string names;
    for (auto equals = text.find("=\"", from); equals < line_end; equals = text.find("=\"", equals + 1)) {
      const auto start = text.find_last_of("{,", equals) + 1;
      names += (names.empty() ? "" : ",") + text.substr(start, equals - start);
    }
    CHECK(names == labels);
    ++checked;
  }
  CHECK(checked == 6);
}

TEST_CASE("an unbound request names no destination") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  auto record = served();
  record.bound = false;
  record.status = 503;
  record.metric_error_type = "pod_discovery";
  record.output_tokens = 0;
  metrics->finished(record);
  const auto text = registry->serialize();
  CHECK(has_line(text,
                 "kthena_router_requests_total{backend_name=\"none\",backend_type=\"unresolved\","
                 "error_type=\"pod_discovery\",model=\"m-a\",model_route=\"none\","
                 "path=\"/v1/chat/completions\",status_code=\"503\",upstream_model=\"none\"} 1"));
  CHECK(has_line(text,
                 "kthena_router_tokens_total{backend_name=\"none\",backend_type=\"unresolved\",model=\"m-a\","
                 "model_route=\"none\",path=\"/v1/chat/completions\",token_type=\"input\","
                 "upstream_model=\"none\"} 9"));
  CHECK(text.find("token_type=\"output\"") == std::string::npos);
}

TEST_CASE("error_type follows the status when nothing else is said") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  const auto counts = [&](int status, std::string_view logged, const std::string& expected) {
    auto record = served();
    record.status = status;
    record.error_type = logged;
    metrics->finished(record);
    return registry->serialize().find("error_type=\"" + expected +
                                      "\",model=\"m-a\",model_route=\"golden/mr-a\","
                                      "path=\"/v1/chat/completions\",status_code=\"" +
                                      std::to_string(status)) != std::string::npos;
  };
  CHECK(counts(399, "", "successful_request"));
  CHECK(counts(400, "scheduling", "request_failed"));
  CHECK(counts(499, "client_disconnected", "request_failed"));
  CHECK(counts(413, "request_parsing", "request_parsing"));
}

TEST_CASE("requests refused while parsing are model unknown, uncounted ones leave no series") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  model::RequestRecord record;
  record.status = 200;
  metrics->finished(record);  // a model list
  CHECK(registry->serialize().find("kthena_router_requests_total") == std::string::npos);
  record.counted = true;
  record.status = 400;
  record.error_type = "request_parsing";
  record.started = model::RequestRecord::Steady::time_point(5s);
  record.finished = record.started + 20ms;
  metrics->finished(record);
  const auto text = registry->serialize();
  CHECK(has_line(text,
                 "kthena_router_requests_total{backend_name=\"none\",backend_type=\"unresolved\","
                 "error_type=\"request_parsing\",model=\"unknown\",model_route=\"none\",path=\"other\","
                 "status_code=\"400\",upstream_model=\"none\"} 1"));
  CHECK(text.find("le=\"0.01\"} 0") != std::string::npos);
  CHECK(text.find("le=\"0.025\"} 1") != std::string::npos);
}

TEST_CASE("active gauges follow their guards") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  {
    const auto request = metrics->active_request();
    auto downstream = metrics->active_downstream("m-a");
    const auto again = metrics->active_downstream("m-a");
    const auto upstream = metrics->active_upstream("golden/ms-a", "golden/mr-a", "real-a");
    const auto text = registry->serialize();
    CHECK(has_line(text, "kthena_router_active_requests 1"));
    CHECK(has_line(text, "kthena_router_active_downstream_requests{model=\"m-a\"} 2"));
    CHECK(has_line(text,
                   "kthena_router_active_upstream_requests{backend_name=\"golden/ms-a\","
                   "backend_type=\"model_server\",model_route=\"golden/mr-a\",model_server=\"golden/ms-a\","
                   "upstream_model=\"real-a\"} 1"));
    downstream.release();
    CHECK(has_line(registry->serialize(), "kthena_router_active_downstream_requests{model=\"m-a\"} 1"));
  }
  const auto text = registry->serialize();
  CHECK(has_line(text, "kthena_router_active_requests 0"));
  CHECK(has_line(text, "kthena_router_active_downstream_requests{model=\"m-a\"} 0"));
}

TEST_CASE("a guard outlives the removal of its series") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  auto guard = metrics->active_downstream("m-a");
  registry->remove("model", "m-a");
  CHECK(registry->serialize().find("model=\"m-a\"") == std::string::npos);
  auto fresh = metrics->active_downstream("m-a");  // also empties this thread's cache
  (void)registry->serialize();
  guard.release();
  CHECK(has_line(registry->serialize(), "kthena_router_active_downstream_requests{model=\"m-a\"} 1"));
  fresh.release();
  CHECK(has_line(registry->serialize(), "kthena_router_active_downstream_requests{model=\"m-a\"} 0"));
}

TEST_CASE("junk model names make one series") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  const auto lines = [&] {
    const auto text = registry->serialize();
    return std::count(text.begin(), text.end(), '\n');
  };
  std::ptrdiff_t after_first = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string junk = "junk-" + std::to_string(i);
    auto record = served();
    record.model = junk;
    record.model_label = "unknown";
    record.bound = false;
    record.status = 404;
    metrics->finished(record);
    if (i == 0) after_first = lines();
  }
  CHECK(lines() == after_first);
  CHECK(registry->serialize().find("junk") == std::string::npos);
}

TEST_CASE("more label sets than the cache holds, and removal in between, are counted right") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  constexpr int models = 1000;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < models; ++i) {
      const std::string name = "m" + std::to_string(i);
      auto record = served();
      record.model_label = name;
      metrics->finished(record);
    }
    if (round == 1) registry->remove("model", "m7");
  }
  const auto value = [&](const char* model) {
    return registry
        ->counter("kthena_router_requests_total", "",
                  {{"model", model},
                   {"path", "/v1/chat/completions"},
                   {"status_code", "200"},
                   {"error_type", "successful_request"},
                   {"model_route", "golden/mr-a"},
                   {"backend_type", "model_server"},
                   {"backend_name", "golden/ms-a"},
                   {"upstream_model", "real-a"}})
        .value();
  };
  CHECK(value("m6") == 3);
  CHECK(value("m7") == 1);
}

TEST_CASE("workers count while series are removed and scraped") {
  auto registry = Registry::create();
  auto metrics = RequestMetrics::create(*registry);
  std::atomic<bool> done{false};
  std::thread control([&] {
    while (!done) {
      registry->remove("model", "m-a");
      (void)registry->serialize();
    }
  });
  std::vector<std::thread> workers;
  for (int t = 0; t < 3; ++t) {
    workers.emplace_back([&] {
      for (int i = 0; i < 3000; ++i) {
        const auto down = metrics->active_downstream("m-a");
        const auto up = metrics->active_upstream("golden/ms-a", "golden/mr-a", "real-a");
        metrics->finished(served());
        auto other = served();
        other.model_label = "m-b";
        metrics->finished(other);
      }
    });
  }
  for (auto& worker : workers) worker.join();
  done = true;
  control.join();
  CHECK(has_line(registry->serialize(),
                 "kthena_router_requests_total{" + bound_labels +
                     R"(error_type="successful_request",model="m-b",model_route="golden/mr-a",)"
                     R"(path="/v1/chat/completions",status_code="200",upstream_model="real-a"} 9000)"));
}

TEST_CASE("key borders cannot be imitated") {
  KeyBuilder a, b;
  CHECK(a.start().add("ab").add("c").key() != b.start().add("a").add("bc").key());
  CHECK(a.start().add("").add("x").key() != b.start().add("x").add("").key());
}
