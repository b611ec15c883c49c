#include "scrape/poller.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "support/run_coro.hpp"
#include "support/scripted_engine.hpp"

namespace warmroute::scrape {
namespace {

using std::chrono::milliseconds;
using test::http_answer;
using test::ScriptedEngine;
using Reply = ScriptedEngine::Reply;

const std::string idle = "vllm:num_requests_running 1\nvllm:num_requests_waiting 2\nvllm:kv_cache_usage_perc 0.5\n";

/// A poller with short intervals, and what its hooks were told.
struct Scene {
  net::io_context io;
  std::map<PodId, std::vector<std::string>> models;
  std::vector<std::pair<PodId, bool>> reachable;
  std::vector<std::pair<PodId, double>> starts;
  std::vector<std::pair<PodId, std::int64_t>> kv_tokens;
  std::map<PodId, std::pair<int, int>> scraped;  ///< ok, failed
  std::function<void()> at_process_start;
  std::optional<Poller> poller;
  std::uint32_t pods = 0;

  void start(PollerOptions options = fast()) {
    PollerHooks hooks;
    hooks.models = [this](PodId pod, std::vector<std::string> names) { models[pod] = std::move(names); };
    hooks.reachable = [this](PodId pod, bool up) { reachable.emplace_back(pod, up); };
    hooks.process_start = [this](PodId pod, double seconds) {
      starts.emplace_back(pod, seconds);
      if (at_process_start) at_process_start();
    };
    hooks.kv_tokens = [this](PodId pod, std::int64_t tokens) { kv_tokens.emplace_back(pod, tokens); };
    hooks.scraped = [this](const model::PodRecord& record, bool ok) {
      auto& counts = scraped[record.id()];
      ++(ok ? counts.first : counts.second);
    };
    poller.emplace(io, options, nullptr, std::move(hooks));
  }
  static PollerOptions fast() {
    PollerOptions options;
    options.interval = milliseconds(10);
    options.timeout = milliseconds(2000);
    options.models_interval = milliseconds(30);
    options.health_interval = milliseconds(10);
    return options;
  }
  model::ScrapeTarget pod(const ScriptedEngine& engine) { return pod(engine.port()); }
  model::ScrapeTarget pod(std::uint16_t port) {
    model::ScrapeTarget target;
    target.record = std::make_shared<model::PodRecord>(PodId{pods, 1}, "p" + std::to_string(pods), "ns", "127.0.0.1");
    ++pods;
    target.port = port;
    return target;
  }
  [[nodiscard]] bool until(const std::function<bool()>& reached) { return test::run_until(io, reached); }
};

ScriptedEngine::Script healthy() {
  return [](const std::string& path, int) {
    if (path == "/metrics") return Reply{http_answer(200, idle)};
    if (path == "/v1/models") return Reply{http_answer(200, R"({"data":[{"id":"base"}]})")};
    return Reply{http_answer(200, "")};
  };
}

std::uint16_t refusing_port(net::io_context& io) { return ScriptedEngine(io, nullptr).port(); }

}  // namespace

TEST_CASE("a pod is scraped at once, then again and again on one connection") {
  Scene scene;
  ScriptedEngine engine(scene.io, healthy());
  scene.start();
  const auto target = scene.pod(engine);
  CHECK_FALSE(scene.poller->first_round_done());
  scene.poller->set_targets({target});
  CHECK_FALSE(scene.poller->first_round_done());
  REQUIRE(scene.until([&] { return scene.scraped[target.record->id()].first >= 4; }));
  CHECK(scene.poller->first_round_done());
  const auto sample = target.record->fresh_sample(model::Clock::now(), std::chrono::seconds(5));
  REQUIRE(sample);
  CHECK(sample->running == 1);
  CHECK(sample->waiting == 2);
  CHECK(sample->kv_usage == 0.5);
  CHECK(scene.models[target.record->id()] == std::vector<std::string>{"base"});
  CHECK(engine.connections() == 1);
  CHECK(engine.count("/health") == 0);
  CHECK(engine.count("/v1/models") < engine.count("/metrics"));
}

TEST_CASE("a hanging pod delays no other, and its scrapes do not pile up") {
  Scene scene;
  ScriptedEngine hanging(scene.io, [](const std::string&, int) { return Reply{"", false, true}; });
  ScriptedEngine engine(scene.io, healthy());
  scene.start();
  const auto stuck = scene.pod(hanging), fine = scene.pod(engine);
  scene.poller->set_targets({stuck, fine});
  REQUIRE(scene.until([&] { return scene.scraped[fine.record->id()].first >= 10; }));
  CHECK(scene.scraped[stuck.record->id()] == std::pair(0, 0));
  CHECK(hanging.requests().size() == 1);
  CHECK_FALSE(scene.poller->first_round_done());
  CHECK_FALSE(stuck.record->last_sample());
}

TEST_CASE("a failed scrape counts for the first round and leaves the sample as it was") {
  Scene scene;
  bool fail = false;
  ScriptedEngine engine(scene.io, [&](const std::string& path, int number) {
    return fail ? Reply{http_answer(500, "")} : healthy()(path, number);
  });
  scene.start();
  const auto target = scene.pod(engine), dead = scene.pod(refusing_port(scene.io));
  scene.poller->set_targets({target, dead});
  REQUIRE(scene.until([&] { return scene.poller->first_round_done(); }));
  CHECK(scene.scraped[dead.record->id()].first == 0);
  CHECK(scene.scraped[dead.record->id()].second >= 1);
  CHECK_FALSE(dead.record->last_sample());
  fail = true;
  REQUIRE(scene.until([&] { return scene.scraped[target.record->id()].second >= 2; }));
  CHECK(target.record->last_sample()->running == 1);
  CHECK(scene.models[target.record->id()] == std::vector<std::string>{"base"});
}

TEST_CASE("metrics without running and waiting give no sample") {
  Scene scene;
  ScriptedEngine engine(scene.io, [](const std::string&, int) { return Reply{http_answer(200, "other 1\n")}; });
  scene.start();
  const auto target = scene.pod(engine);
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return scene.scraped[target.record->id()].second >= 2; }));
  CHECK_FALSE(target.record->last_sample());
}

TEST_CASE("a redirect to /metrics/ is followed and remembered") {
  Scene scene;
  ScriptedEngine engine(scene.io, [](const std::string& path, int number) {
    if (path == "/metrics") return Reply{http_answer(307, "", "Location: /metrics/\r\n")};
    return healthy()(path == "/metrics/" ? "/metrics" : path, number);
  });
  scene.start();
  const auto target = scene.pod(engine);
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return scene.scraped[target.record->id()].first >= 3; }));
  CHECK(engine.count("/metrics") == 1);
}

TEST_CASE("the models list changes, and stays when it cannot be read") {
  Scene scene;
  Reply models{http_answer(200, R"({"data":[{"id":"a"}]})")};
  ScriptedEngine engine(scene.io, [&](const std::string& path, int number) {
    return path == "/v1/models" ? models : healthy()(path, number);
  });
  scene.start();
  const auto target = scene.pod(engine);
  const auto id = target.record->id();
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return scene.models.contains(id); }));
  CHECK(scene.models[id] == std::vector<std::string>{"a"});
  const auto ask_again = [&] {
    const auto asked = engine.count("/v1/models");
    return scene.until([&, asked] { return engine.count("/v1/models") >= asked + 2; });
  };
  models = Reply{http_answer(200, R"({"data":[{"id":"a"},{"id":"lora"}]})")};
  REQUIRE(ask_again());
  CHECK(scene.models[id] == std::vector<std::string>{"a", "lora"});
  models = Reply{http_answer(200, "<html>")};
  REQUIRE(ask_again());
  models = Reply{http_answer(503, R"({"data":[]})")};
  REQUIRE(ask_again());
  CHECK(scene.models[id] == std::vector<std::string>{"a", "lora"});
}

TEST_CASE("removed pods end promptly, in the middle of an exchange too") {
  Scene scene;
  ScriptedEngine hanging(scene.io, [](const std::string&, int) { return Reply{"", false, true}; });
  ScriptedEngine engine(scene.io, healthy());
  scene.start();
  auto stuck = scene.pod(hanging);
  stuck.is_static = true;
  const auto kept = scene.pod(engine);
  scene.poller->set_targets({stuck, kept});
  REQUIRE(scene.until([&] { return hanging.open() == 2; }));  // metrics and health
  scene.poller->set_targets({kept});
  REQUIRE(scene.until([&] { return hanging.open() == 0; }));
  CHECK(scene.scraped[stuck.record->id()] == std::pair(0, 0));
  CHECK(scene.until([&] { return scene.poller->first_round_done(); }));
  CHECK(scene.until([&] { return stuck.record.use_count() == 1; }));
  const auto before = scene.scraped[kept.record->id()].first;
  CHECK(scene.until([&] { return scene.scraped[kept.record->id()].first > before; }));
}

TEST_CASE("a changed port is scraped on the new port") {
  Scene scene;
  ScriptedEngine first(scene.io, healthy()), second(scene.io, healthy());
  scene.start();
  auto target = scene.pod(first);
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return first.count("/metrics") >= 1; }));
  target.port = second.port();
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return second.count("/metrics") >= 2; }));
  CHECK(scene.until([&] { return first.open() == 0; }));
}

TEST_CASE("a static pod leaves after three failed probes and returns after one success") {
  Scene scene;
  int status = 503;
  ScriptedEngine engine(scene.io, [&](const std::string& path, int number) {
    return path == "/health" ? Reply{http_answer(status, "")} : healthy()(path, number);
  });
  scene.start();
  auto target = scene.pod(engine);
  target.is_static = true;
  const auto id = target.record->id();
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return !scene.reachable.empty(); }));
  CHECK(scene.reachable == std::vector{std::pair(id, false)});
  CHECK(engine.count("/health") == 3);
  status = 404;
  REQUIRE(scene.until([&] { return scene.reachable.size() == 2; }));
  CHECK(scene.reachable.back() == std::pair(id, true));
  const auto probes = engine.count("/health");
  REQUIRE(scene.until([&] { return engine.count("/health") >= probes + 3; }));
  CHECK(scene.reachable.size() == 2);
}

TEST_CASE("failed connects count towards the three, for static pods only") {
  Scene scene;
  auto options = Scene::fast();
  options.health_interval = std::chrono::hours(1);
  ScriptedEngine engine(scene.io, healthy());
  scene.start(options);
  auto target = scene.pod(engine);
  target.is_static = true;
  const auto other = scene.pod(engine);
  scene.poller->set_targets({target, other});
  for (int i = 0; i < 5; ++i) scene.poller->connect_failed(other.record->id());
  scene.poller->connect_failed({99, 1});
  scene.poller->connect_failed(target.record->id());
  scene.poller->connect_failed(target.record->id());
  CHECK(scene.reachable.empty());
  scene.poller->connect_failed(target.record->id());
  scene.poller->connect_failed(target.record->id());
  CHECK(scene.reachable == std::vector{std::pair(target.record->id(), false)});
}

TEST_CASE("a success in between starts the count again") {
  Scene scene;
  ScriptedEngine engine(scene.io, healthy());
  scene.start();
  auto target = scene.pod(engine);
  target.is_static = true;
  scene.poller->set_targets({target});
  for (int i = 0; i < 4; ++i) {
    scene.poller->connect_failed(target.record->id());
    scene.poller->connect_failed(target.record->id());
    const auto probes = engine.count("/health");
    REQUIRE(scene.until([&] { return engine.count("/health") >= probes + 2; }));
  }
  CHECK(scene.reachable.empty());
}

TEST_CASE("a new start time is reported before the sample, whose pod may be gone by then") {
  Scene scene;
  double start_time = 100;
  ScriptedEngine engine(scene.io, [&](const std::string& path, int number) {
    if (path != "/metrics") return healthy()(path, number);
    return Reply{http_answer(200, idle + "process_start_time_seconds " + std::to_string(start_time) + "\n")};
  });
  scene.start();
  const auto target = scene.pod(engine);
  const auto next = scene.pod(engine);
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return scene.scraped[target.record->id()].first >= 3; }));
  CHECK(scene.starts == std::vector{std::pair(target.record->id(), 100.0)});
  start_time = 200;
  scene.at_process_start = [&] {
    if (scene.starts.size() == 2) scene.poller->set_targets({next});
  };
  REQUIRE(scene.until([&] { return scene.scraped[next.record->id()].first >= 1; }));
  CHECK(scene.starts[1] == std::pair(target.record->id(), 200.0));
  const auto old = scene.scraped[target.record->id()];
  REQUIRE(scene.until([&] { return scene.scraped[next.record->id()].first >= 4; }));
  CHECK(scene.scraped[target.record->id()] == old);
}

TEST_CASE("the size of the KV cache is told once, and again when it changed") {
  Scene scene;
  std::string extra;
  ScriptedEngine engine(scene.io, [&](const std::string& path, int number) {
    if (path != "/metrics") return healthy()(path, number);
    return Reply{http_answer(200, idle + extra)};
  });
  scene.start();
  const auto target = scene.pod(engine);
  const PodId id = target.record->id();
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return scene.scraped[id].first >= 3; }));
  CHECK(scene.kv_tokens == std::vector{std::pair(id, std::int64_t{0})});
  extra = "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"5\"} 1\n";
  REQUIRE(scene.until([&] { return scene.kv_tokens.size() == 2; }));
  CHECK(scene.kv_tokens[1].second == 80);
}

TEST_CASE("no more exchanges at a time than allowed; the others wait their turn") {
  Scene scene;
  auto options = Scene::fast();
  options.concurrent_exchanges = 3;
  bool hang = true;
  ScriptedEngine engine(scene.io, [&](const std::string& path, int number) {
    return hang ? Reply{"", false, true} : healthy()(path, number);
  });
  scene.start(options);
  std::vector<model::ScrapeTarget> targets;
  for (int i = 0; i < 10; ++i) targets.push_back(scene.pod(engine));
  scene.poller->set_targets(targets);
  REQUIRE(scene.until([&] { return engine.open() == 3; }));
  scene.io.run_for(milliseconds(30));
  CHECK(engine.connections() == 3);
  SECTION("pods that wait can be removed") {
    scene.poller->set_targets({targets[0]});
    CHECK(scene.until([&] { return targets[9].record.use_count() == 1 && targets[5].record.use_count() == 1; }));
    CHECK(scene.until([&] { return engine.open() == 1; }));
  }
  SECTION("and get it when an exchange ends") {
    hang = false;
    engine.drop_connections();
    REQUIRE(scene.until([&] { return scene.poller->first_round_done(); }));
    CHECK(scene.scraped.size() == 10);
    CHECK(scene.until([&] { return targets[9].record->last_sample().has_value(); }));
  }
}

TEST_CASE("an https target without a TLS context fails and is not asked in clear text") {
  Scene scene;
  ScriptedEngine engine(scene.io, healthy());
  scene.start();
  auto target = scene.pod(engine);
  target.https = true;
  target.is_static = true;
  scene.poller->set_targets({target});
  REQUIRE(scene.until([&] { return scene.reachable.size() == 1; }));
  CHECK(scene.scraped[target.record->id()].first == 0);
  CHECK(engine.connections() == 0);
}

TEST_CASE("an empty first list is done at once") {
  Scene scene;
  scene.start();
  scene.poller->set_targets({});
  CHECK(scene.poller->first_round_done());
}

TEST_CASE("the poller may end in the middle of everything") {
  Scene scene;
  auto options = Scene::fast();
  options.concurrent_exchanges = 2;
  ScriptedEngine hanging(scene.io, [](const std::string&, int) { return Reply{"", false, true}; });
  scene.start(options);
  std::vector<model::ScrapeTarget> targets;
  for (int i = 0; i < 4; ++i) {
    targets.push_back(scene.pod(hanging));
    targets.back().is_static = true;
  }
  scene.poller->set_targets(targets);
  REQUIRE(scene.until([&] { return hanging.open() == 2; }));
  SECTION("and the loop runs on") {
    scene.poller.reset();
    CHECK(scene.until([&] { return targets[0].record.use_count() == 1 && targets[3].record.use_count() == 1; }));
    CHECK(scene.scraped.empty());
  }
  SECTION("and the loop has ended") { scene.poller.reset(); }
}

}  // namespace warmroute::scrape
