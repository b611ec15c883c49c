#include "source/cluster.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <map>

#include "support/run_coro.hpp"
#include "support/scripted_engine.hpp"
#include "unit/kube/kube_world.hpp"

namespace warmroute::source {
namespace {

using std::chrono::milliseconds;
using namespace test;  // NOLINT(google-build-using-namespace): the texts of the world
using Reply = ScriptedEngine::Reply;

std::string server_json(const std::string& name, int version, const std::string& labels) {
  return R"({"metadata":{"namespace":"ns","name":")" + name + R"(","resourceVersion":")" + std::to_string(version) +
         R"("},"spec":{"inferenceEngine":"vLLM","workloadPort":{"port":8000},"workloadSelector":{"matchLabels":)" +
         labels + "}}}";
}

/// A cluster whose lists are texts; watches of a path say what is in `streams`, then nothing.
struct World {
  World() {
    kube::Config config;
    config.tls = false;
    config.host = "127.0.0.1";
    config.port = server.port();
    kube::ClientOptions options;
    options.qps = options.burst = 10'000;
    client = std::make_shared<kube::Client>(io, config, options);
    ClusterTiming timing;
    timing.gather = milliseconds(1);
    timing.watch.backoff = {milliseconds(2), milliseconds(10)};
    timing.watch.relist = milliseconds(0);
    ClusterHooks hooks;
    hooks.changed = [this](model::ResourceSet state) { states.push_back(std::move(state)); };
    hooks.problems = [this](const config::Diagnostics& found) {
      for (const auto& each : found) problems.push_back(each.text());
    };
    cluster = std::make_unique<Cluster>(io, tasks, client, std::move(hooks), timing);
  }
  ~World() {
    cluster.reset();
    client->close();
    CHECK(run_until(io, [this] { return tasks.running() == 0; }));
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Reply answer(const std::string& path) {
    std::string what = path.find("modelroutes") != std::string::npos    ? "routes"
                       : path.find("modelservers") != std::string::npos ? "servers"
                                                                        : path.substr(path.find("labelSelector=") + 14);
    if (path.find("watch=1") != std::string::npos) {
      std::string events = std::exchange(streams[what], "");
      char size[16];
      (void)std::snprintf(size, sizeof size, "%zx\r\n", events.size());
      const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
      if (events.empty()) return {head, false, true};
      return {head + size + events + "\r\n", false, true};
    }
    const auto list = lists.find(what);
    if (list == lists.end()) return {http_answer(500, "")};
    return {http_answer(200, list->second)};
  }
  bool reaches(const std::function<bool()>& what) { return run_until(io, what); }
  [[nodiscard]] std::string pods() const {
    std::string out;
    if (states.empty()) return "nothing";
    for (const auto& pod : states.back().pods) out += (out.empty() ? "" : " ") + pod.meta.name + "@" + pod.ip;
    return out;
  }

  net::io_context io;
  std::map<std::string, std::string> lists{{"routes", list_json(10, {})}, {"servers", list_json(10, {})}};
  std::map<std::string, std::string> streams;
  ScriptedEngine server{io, [this](const std::string& path, int) { return answer(path); }};
  net::TaskGroup tasks{io};
  std::shared_ptr<kube::Client> client;
  std::vector<model::ResourceSet> states;
  std::vector<std::string> problems;
  std::unique_ptr<Cluster> cluster;
};

}  // namespace

TEST_CASE("cluster: a cluster without objects is a state") {
  World world;
  world.cluster->start();
  REQUIRE(world.reaches([&] { return world.states.size() == 1; }));
  CHECK(world.states[0].servers.empty());
  CHECK(world.cluster->status().synced);
  REQUIRE(world.reaches([&] { return world.cluster->status().connected == 2; }));
  CHECK(world.cluster->status().age.count() == 0);
}

TEST_CASE("cluster: the first state waits for the pods of every selector") {
  World world;
  world.lists["servers"] =
      list_json(10, {server_json("s", 5, R"({"app":"a"})"), server_json("t", 6, R"({"app":"b"})")});
  world.lists["app%3Da"] = list_json(10, {pod_json("p", 7, "10.0.0.1")});
  world.cluster->start();
  REQUIRE(world.reaches([&] { return world.cluster->status().counters.failures >= 3; }));
  CHECK(world.states.empty());
  CHECK_FALSE(world.cluster->status().synced);
  world.lists["app%3Db"] = list_json(10, {});
  REQUIRE(world.reaches([&] { return world.states.size() == 1; }));
  CHECK(world.pods() == "p@10.0.0.1");
  CHECK(world.cluster->status().watches == 4);
}

TEST_CASE("cluster: a pod that two lists hold is taken from the newer") {
  World world;
  world.lists["servers"] =
      list_json(10, {server_json("s", 5, R"({"app":"a"})"), server_json("t", 6, R"({"role":"x"})")});
  world.lists["app%3Da"] = list_json(10, {pod_json("p", 7, "10.0.0.1", "u1")});
  world.lists["role%3Dx"] = list_json(12, {pod_json("p", 11, "10.0.0.2", "u2")});
  world.cluster->start();
  REQUIRE(world.reaches([&] { return world.states.size() == 1; }));
  CHECK(world.pods() == "p@10.0.0.2");
}

TEST_CASE("cluster: pods of the old selector stay until the new list is there") {
  World world;
  world.lists["servers"] = list_json(10, {server_json("s", 5, R"({"app":"a"})")});
  world.lists["app%3Da"] = list_json(10, {pod_json("p", 7, "10.0.0.1")});
  world.cluster->start();
  REQUIRE(world.reaches([&] { return world.cluster->status().connected == 3 && !world.states.empty(); }));
  world.streams["servers"] = event_json("MODIFIED", server_json("s", 11, R"({"app":"b"})"));
  world.server.drop_connections();
  REQUIRE(world.reaches([&] { return world.states.back().servers[0].selector == model::Labels{{"app", "b"}}; }));
  const auto before = world.cluster->status().counters.failures;
  REQUIRE(world.reaches([&] { return world.cluster->status().counters.failures >= before + 2; }));  // the list of b
  CHECK(world.pods() == "p@10.0.0.1");
  world.lists["app%3Db"] = list_json(12, {pod_json("q", 8, "10.0.0.2")});
  REQUIRE(world.reaches([&] { return world.pods() == "q@10.0.0.2"; }));
  CHECK(world.cluster->status().watches == 3);
}

TEST_CASE("cluster: what cannot be used is told and left out") {
  World world;
  world.lists["servers"] = list_json(10, {server_json("s", 5, "{}"), server_json("t", 6, R"({"app":"a"})")});
  world.lists["app%3Da"] = list_json(10, {});
  world.cluster->start();
  REQUIRE(world.reaches([&] { return world.states.size() == 1; }));
  REQUIRE(world.states[0].servers.size() == 1);
  CHECK(world.states[0].servers[0].meta.name == "t");
  REQUIRE(world.problems.size() == 1);
  CHECK(world.problems[0].starts_with("ModelServer ns/s: spec.workloadSelector.matchLabels: "));
  const auto unusable = world.cluster->unusable_servers();
  REQUIRE(unusable.size() == 1);
  CHECK("ModelServer ns/s: " + unusable.at("ns/s").problem == world.problems[0]);
  CHECK(world.cluster->unusable_routes().empty());
}

}  // namespace warmroute::source
