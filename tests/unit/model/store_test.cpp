#include "model/store.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace wr = warmroute;
namespace model = warmroute::model;

namespace {

model::Pod pod(const std::string& name, model::Labels labels, std::string ip = "10.0.0.1") {
  model::Pod result;
  result.meta.name = name;
  result.meta.labels = std::move(labels);
  result.ip = std::move(ip);
  return result;
}

model::Pod static_pod(const std::string& name, model::Labels labels) {
  model::Pod result = pod(name, std::move(labels));
  result.is_static = true;
  result.port = 8001;
  return result;
}

model::ModelServer server(const std::string& name, model::Labels selector, std::uint16_t port = 8000) {
  model::ModelServer result;
  result.meta.name = name;
  result.selector = std::move(selector);
  result.port = port;
  return result;
}

model::ModelRoute route(const std::string& name, const std::string& model_name) {
  model::ModelRoute result;
  result.meta.name = name;
  result.model_name = model_name;
  return result;
}

/// A store whose hooks are written down in order.
struct Recorder {
  std::vector<std::string> events;
  std::vector<std::shared_ptr<const model::Snapshot>> snapshots;
  std::vector<model::ScrapeTarget> targets;
  std::vector<std::string> warnings;
  model::Store store{hooks()};

  model::Store::Hooks hooks() {
    model::Store::Hooks result;
    result.pod_joined = [this](const model::PodRecord& record) {
      CHECK_FALSE(record.left());
      events.push_back("joined " + record.key());
    };
    result.pod_left = [this](const model::PodRecord& record) {
      CHECK(record.left());
      events.push_back("left " + record.key());
    };
    result.snapshot = [this](std::shared_ptr<const model::Snapshot> snapshot) {
      events.push_back("snapshot");
      snapshots.push_back(std::move(snapshot));
    };
    result.targets = [this](const std::vector<model::ScrapeTarget>& list) {
      events.push_back("targets");
      targets = list;
    };
    result.log_warning = [this](std::string_view text) { warnings.emplace_back(text); };
    return result;
  }
  std::vector<std::string> take_events() { return std::exchange(events, {}); }
  [[nodiscard]] std::vector<std::string> pods_of(const std::string& key) const {
    std::vector<std::string> names;
    const auto entry = store.snapshot()->server(key);
    REQUIRE(entry);
    for (const auto& entry_pod : entry->pods) names.push_back(entry_pod.record->key());
    return names;
  }
  [[nodiscard]] std::shared_ptr<model::PodRecord> record(const std::string& server_key) const {
    const auto entry = store.snapshot()->server(server_key);
    REQUIRE(entry);
    REQUIRE(entry->pods.size() == 1);
    return entry->pods.front().record;
  }
};

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("an empty store has an empty snapshot", "[store]") {
  Recorder r;
  REQUIRE(r.store.snapshot());
  CHECK(r.store.snapshot()->version == 0);
  r.store.replace({});
  CHECK(r.events.empty());
}

TEST_CASE("hooks run in order: joined, left, snapshot, targets", "[store]") {
  Recorder r;
  r.store.replace({{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}});
  CHECK(r.take_events() == Strings{"joined default/a", "snapshot", "targets"});
  CHECK(r.store.snapshot()->version == 1);
  r.store.replace({{}, {server("s", {{"app", "x"}})}, {pod("b", {{"app", "x"}})}});
  CHECK(r.take_events() == Strings{"joined default/b", "left default/a", "snapshot", "targets"});
  CHECK(r.store.snapshot()->version == 2);
}

TEST_CASE("a replace that changes nothing publishes nothing", "[store]") {
  Recorder r;
  model::ResourceSet set{{route("r", "m"), route("q", "m")}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}};
  r.store.replace(set);
  r.take_events();
  r.store.replace(set);
  CHECK(r.take_events().empty());
  set.pods[0].meta.resource_version = "77";
  set.pods[0].meta.labels["other"] = "y";
  set.servers[0].meta.resource_version = "78";
  set.routes[1].meta.labels["team"] = "z";
  r.store.replace(set);
  CHECK(r.take_events().empty());
  CHECK(r.store.resources().pods[0].meta.resource_version == "77");
}

TEST_CASE("a pod that stays keeps its record through edits and reordering", "[store]") {
  Recorder r;
  model::ResourceSet set{{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}}), pod("b", {{"app", "x"}})}};
  r.store.replace(set);
  const auto before = r.store.snapshot()->server("default/s")->pods;
  std::swap(set.pods[0], set.pods[1]);
  set.pods[0].meta.labels["new"] = "label";
  set.servers[0].port = 9000;
  r.store.replace(set);
  const auto after = r.store.snapshot()->server("default/s")->pods;
  REQUIRE(after.size() == 2);
  CHECK(after[0].record == before[0].record);
  CHECK(after[1].record == before[1].record);
  CHECK(after[0].port == 9000);
  CHECK(r.pods_of("default/s") == Strings{"default/a", "default/b"});
  CHECK(r.targets[0].port == 9000);
}

TEST_CASE("a pod leaves once, on every path by which it stops being routable", "[store]") {
  Recorder r;
  model::ResourceSet set{{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}};
  r.store.replace(set);
  r.take_events();
  const auto first = r.record("default/s");
  const model::ResourceSet good = set;

  SECTION("not ready") { set.pods[0].ready = false; }
  SECTION("terminating") { set.pods[0].meta.deletion_timestamp = true; }
  SECTION("no address") { set.pods[0].ip.clear(); }
  SECTION("labels changed") { set.pods[0].meta.labels = {{"app", "y"}}; }
  SECTION("selector changed") { set.servers[0].selector = {{"app", "y"}}; }
  SECTION("selector narrowed") { set.servers[0].selector["zone"] = "1"; }
  SECTION("selector empty") { set.servers[0].selector.clear(); }
  SECTION("server deleted") { set.servers.clear(); }
  SECTION("server moved to another namespace") { set.servers[0].meta.ns = "other"; }
  SECTION("pod deleted") { set.pods.clear(); }
  SECTION("everything gone") { set = {}; }

  r.store.replace(set);
  CHECK(r.take_events() == Strings{"left default/a", "snapshot", "targets"});
  CHECK(first->left());
  CHECK(r.targets.empty());
  r.store.replace(set);
  CHECK(r.take_events().empty());

  r.store.set_loaded_models(first->id(), {"m"});
  r.store.set_reachable(first->id(), false);
  r.store.set_process_start(first->id(), 5);
  CHECK(r.take_events().empty());

  r.store.replace(good);
  CHECK(r.take_events() == Strings{"joined default/a", "snapshot", "targets"});
  const auto second = r.record("default/s");
  CHECK(second != first);
  CHECK(second->id().slot == first->id().slot);
  CHECK(second->id().generation > first->id().generation);
}

TEST_CASE("another UID, address or container start is another incarnation", "[store]") {
  Recorder r;
  model::ResourceSet set{{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}};
  r.store.replace(set);
  r.take_events();
  const auto first = r.record("default/s");

  SECTION("uid") { set.pods[0].meta.uid = "2"; }
  SECTION("address") { set.pods[0].ip = "10.0.0.2"; }
  SECTION("container start") { set.pods[0].container_start = "2026-01-01T00:00:00Z"; }

  r.store.replace(set);
  CHECK(r.take_events() == Strings{"joined default/a", "left default/a", "snapshot", "targets"});
  const auto second = r.record("default/s");
  CHECK(second != first);
  CHECK(second->id().slot != first->id().slot);  // the old slot is free only after the hook
}

TEST_CASE("a pod that gets a dead pod's address starts empty", "[store]") {
  Recorder r;
  r.store.replace({{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}}, "10.0.0.9")}});
  const auto a = r.record("default/s");
  r.store.set_loaded_models(a->id(), {"m"});
  r.store.replace({{}, {server("s", {{"app", "x"}})}, {pod("z", {{"app", "x"}}, "10.0.0.9")}});
  const auto entry = r.store.snapshot()->server("default/s");
  REQUIRE(entry->pods.size() == 1);
  CHECK(entry->pods[0].record != a);
  CHECK(entry->pods[0].loaded_models->empty());
  CHECK(a->left());
}

TEST_CASE("the engine's process start ends an incarnation", "[store]") {
  Recorder r;
  model::ResourceSet set{{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}};
  SECTION("without a container start") {
    r.store.replace(set);
    r.take_events();
    const auto first = r.record("default/s");
    r.store.set_process_start(first->id(), 1000);
    r.store.set_process_start(first->id(), 1000.9);
    r.store.set_process_start(first->id(), 900);
    r.store.set_process_start(first->id(), std::numeric_limits<double>::quiet_NaN());
    CHECK(r.take_events().empty());
    r.store.set_process_start(first->id(), 1001.5);
    CHECK(r.take_events() == Strings{"joined default/a", "left default/a", "snapshot", "targets"});
    const auto second = r.record("default/s");
    CHECK(second != first);
    r.store.set_process_start(second->id(), 1001.5);
    r.store.set_process_start(first->id(), 2000);
    CHECK(r.take_events().empty());
    r.store.replace(set);
    CHECK(r.record("default/s") == second);
  }
  SECTION("a container start from Kubernetes outranks it") {
    set.pods[0].container_start = "2026-01-01T00:00:00Z";
    r.store.replace(set);
    r.take_events();
    r.store.set_process_start(r.record("default/s")->id(), 1000);
    r.store.set_process_start(r.record("default/s")->id(), 2000);
    CHECK(r.take_events().empty());
  }
}

TEST_CASE("each list of pods has a version of its own", "[store]") {
  Recorder r;
  model::ResourceSet set{{}, {server("s", {{"app", "x"}}), server("t", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}};
  r.store.replace(set);
  const auto s = r.store.snapshot()->server("default/s")->pods_version;
  CHECK(s != 0);
  CHECK(r.store.snapshot()->server("default/t")->pods_version != s);
  r.store.replace(set);
  CHECK(r.store.snapshot()->server("default/s")->pods_version == s);
  set.pods.push_back(pod("b", {{"app", "x"}}));
  r.store.replace(set);
  CHECK(r.store.snapshot()->server("default/s")->pods_version > s);
}

TEST_CASE("an incarnation has a text that another process would find too, once a start is known", "[store]") {
  model::ResourceSet set{{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}};
  const auto text = [&set](double process_start) {
    Recorder r;
    r.store.replace(set);
    const auto id = r.record("default/s")->id();
    if (process_start > 0) r.store.set_process_start(id, process_start);
    CHECK(r.store.incarnation({id.slot, id.generation + 1}).empty());
    return r.store.incarnation(id);
  };
  CHECK(text(0).empty());
  const std::string engine = text(1000.25);
  CHECK_FALSE(engine.empty());
  CHECK(text(1000.25) == engine);
  CHECK(text(1001.25) != engine);
  set.pods[0].meta.uid = "another";
  CHECK(text(1000.25) != engine);
  set.pods[0].container_start = "2026-01-01T00:00:00Z";
  const std::string container = text(0);
  CHECK_FALSE(container.empty());
  CHECK(text(5) == container);
}

TEST_CASE("a static pod that does not answer leaves, stays a target and returns as a new incarnation", "[store]") {
  Recorder r;
  const model::ResourceSet set{{}, {server("s", {{"app", "x"}})}, {static_pod("a", {{"app", "x"}})}};
  r.store.replace(set);
  r.take_events();
  const auto first = r.record("default/s");
  CHECK(r.targets.at(0).is_static);
  CHECK(r.targets.at(0).port == 8001);

  r.store.set_reachable(first->id(), true);
  CHECK(r.take_events().empty());
  r.store.set_reachable(first->id(), false);
  CHECK(r.take_events() == Strings{"left default/a", "snapshot"});
  CHECK(r.pods_of("default/s").empty());
  REQUIRE(r.targets.size() == 1);
  CHECK(r.targets[0].record == first);

  r.store.set_reachable(first->id(), false);
  r.store.set_loaded_models(first->id(), {"m"});
  r.store.replace(set);
  CHECK(r.take_events().empty());

  SECTION("back") {
    r.store.set_reachable(first->id(), true);
    CHECK(r.take_events() == Strings{"joined default/a", "snapshot", "targets"});
    const auto second = r.record("default/s");
    CHECK(second != first);
    CHECK(r.targets[0].record == second);
    r.store.set_reachable(first->id(), false);
    CHECK(r.take_events().empty());
  }
  SECTION("deleted while down: no second hook") {
    r.store.replace({});
    CHECK(r.take_events() == Strings{"snapshot", "targets"});
    CHECK(r.targets.empty());
  }
  SECTION("another address while down: up again") {
    model::ResourceSet moved = set;
    moved.pods[0].ip = "10.0.0.77";
    r.store.replace(moved);
    CHECK(r.take_events() == Strings{"joined default/a", "snapshot", "targets"});
  }
}

TEST_CASE("requests that outlive their incarnation count at its address until they end", "[store]") {
  Recorder r;
  model::ResourceSet set{{}, {server("s", {{"app", "x"}})}, {static_pod("a", {{"app", "x"}})}};
  r.store.replace(set);
  model::InFlightGuard stream(r.record("default/s"));
  const auto first = r.record("default/s")->id();

  SECTION("a static pod that did not answer for a while") {
    r.store.set_reachable(first, false);
    r.store.set_reachable(first, true);
  }
  SECTION("a pod that was not ready for a while") {
    set.pods[0].ready = false;
    r.store.replace(set);
    set.pods[0].ready = true;
    r.store.replace(set);
  }
  const auto again = r.record("default/s");
  REQUIRE(again->id() != first);
  CHECK(again->in_flight() == 1);
  CHECK_FALSE(model::InFlightGuard::take_below(again, 1).pod());
  struct Waiters final : model::SlotWaiters {
    void slot_freed(const model::PodRecord& pod) noexcept override { freed = pod.slots().get(); }
    const model::PodSlots* freed = nullptr;
  } waiters;
  again->want(waiters);
  stream.release();
  again->unwant();
  CHECK(waiters.freed == again->slots().get());
  CHECK(again->in_flight() == 0);

  const model::InFlightGuard other(again);
  set.pods[0].ip = "10.0.0.2";
  r.store.replace(set);
  CHECK(r.record("default/s")->in_flight() == 0);  // another address, another engine
}

TEST_CASE("a pod with a kubelet is not taken out by probes", "[store]") {
  Recorder r;
  r.store.replace({{}, {server("s", {{"app", "x"}})}, {pod("a", {{"app", "x"}})}});
  r.take_events();
  r.store.set_reachable(r.record("default/s")->id(), false);
  CHECK(r.take_events().empty());
}

TEST_CASE("loaded models make a snapshot only when they change", "[store]") {
  Recorder r;
  r.store.replace({{},
                   {server("s", {{"app", "x"}}), server("t", {{"app", "x"}}, 9000), server("u", {{"app", "u"}})},
                   {pod("a", {{"app", "x"}})}});
  r.take_events();
  const auto before = r.store.snapshot();
  const auto record = r.record("default/s");
  r.store.set_loaded_models(record->id(), {});
  CHECK(r.take_events().empty());
  r.store.set_loaded_models(record->id(), {"m", "lora"});
  CHECK(r.take_events() == Strings{"snapshot"});
  r.store.set_loaded_models(record->id(), {"m", "lora"});
  CHECK(r.take_events().empty());
  const auto after = r.store.snapshot();
  for (const char* key : {"default/s", "default/t"}) {
    CHECK(*after->server(key)->pods.at(0).loaded_models == Strings{"m", "lora"});
    CHECK(before->server(key)->pods.at(0).loaded_models->empty());  // an old snapshot does not change
  }
  CHECK(after->server("default/t")->pods[0].port == 9000);
  CHECK(after->server("default/u") == before->server("default/u"));  // untouched parts are shared
  REQUIRE(r.targets.size() == 1);
  CHECK(r.targets[0].port == 8000);
}

TEST_CASE("routes: by creation time, then position, then name; unchanged ones are shared", "[store]") {
  Recorder r;
  auto at = [](const char* name, std::optional<std::int64_t> time, std::uint64_t position) {
    model::ModelRoute result = route(name, "m");
    result.meta.creation_timestamp = time;
    result.meta.position = position;
    return result;
  };
  auto names = [&] {
    Strings result;
    for (const auto& each : r.store.snapshot()->routes) result.push_back(each->meta.name);
    return result;
  };
  r.store.replace({{at("p2", {}, 2), at("b", 10, 9), at("p1", {}, 1), at("a", 10, 50), at("z", 5, 60)}, {}, {}});
  CHECK(names() == Strings{"z", "a", "b", "p1", "p2"});
  const auto first = r.store.snapshot();
  r.store.replace({{at("p2", {}, 1), at("b", 10, 9), at("p1", {}, 2), at("a", 10, 50), at("z", 5, 60)}, {}, {}});
  CHECK(names() == Strings{"z", "a", "b", "p2", "p1"});
  CHECK(r.store.snapshot()->routes[0] == first->routes[0]);
  CHECK(r.store.snapshot()->routes[3] == first->routes[4]);
  CHECK(r.store.snapshot()->version == first->version + 1);
}

TEST_CASE("an object that was made anew has its new UID; its pods keep their records", "[store]") {
  Recorder recorder;
  model::ModelServer first = server("s", {{"app", "a"}});
  model::ModelRoute way = route("r", "m");
  first.meta.uid = way.meta.uid = "one";
  const std::vector<model::Pod> pods{pod("p", {{"app", "a"}})};
  recorder.store.replace({{way}, {first}, pods});
  const auto before = recorder.store.snapshot();
  first.meta.uid = way.meta.uid = "two";
  recorder.store.replace({{way}, {first}, pods});
  const auto after = recorder.store.snapshot();
  CHECK(after->routes.at(0)->meta.uid == "two");
  const auto entry = after->server("default/s");
  REQUIRE(entry);
  CHECK(entry->spec.meta.uid == "two");
  REQUIRE(entry->pods.size() == 1);
  CHECK(entry->pods[0].record == before->server("default/s")->pods.at(0).record);
}

TEST_CASE("of equal names the last definition counts, with a warning", "[store]") {
  Recorder r;
  r.store.replace({{route("r", "one"), route("r", "two")}, {}, {}});
  REQUIRE(r.store.snapshot()->routes.size() == 1);
  CHECK(r.store.snapshot()->routes[0]->model_name == "two");
  CHECK(r.warnings == Strings{"ModelRoute default/r is defined more than once; the last definition is used"});
}

TEST_CASE("random sequences against a naive model", "[store][property]") {
  const auto seed = GENERATE(range(1U, 25U));
  INFO("seed " << seed);
  std::mt19937 random(seed);
  auto draw = [&](unsigned below) { return static_cast<unsigned>(random() % below); };

  std::map<wr::PodId, const model::PodRecord*> joined_now;
  std::set<wr::PodId> ever;
  std::uint32_t last_generation = 0;
  std::uint64_t last_version = 0;
  std::vector<std::shared_ptr<const model::Snapshot>> keep;  // so that addresses of records stay unique
  std::vector<model::ScrapeTarget> targets;
  model::Store::Hooks hooks;
  hooks.pod_joined = [&](const model::PodRecord& record) {
    CHECK(record.id().generation > last_generation);
    last_generation = record.id().generation;
    CHECK(ever.insert(record.id()).second);
    for (const auto& [id, other] : joined_now) CHECK(id.slot != record.id().slot);
    joined_now.emplace(record.id(), &record);
  };
  hooks.pod_left = [&](const model::PodRecord& record) { CHECK(joined_now.erase(record.id()) == 1); };
  hooks.snapshot = [&](std::shared_ptr<const model::Snapshot> snapshot) {
    CHECK(snapshot->version == ++last_version);
    keep.push_back(std::move(snapshot));
  };
  hooks.targets = [&](const std::vector<model::ScrapeTarget>& list) { targets = list; };
  model::Store store(std::move(hooks));

  model::ResourceSet set;
  std::map<std::string, bool> down;  // static pods that do not answer, by key
  auto labels = [&] {
    model::Labels result;
    for (const char* label : {"a", "b"}) {
      if (draw(3) != 0) result[label] = std::to_string(draw(2));
    }
    return result;
  };
  for (int step = 0; step < 120; ++step) {
    std::map<std::string, std::string> identity_before;
    for (const auto& each : set.pods) identity_before[each.meta.key()] = each.meta.uid + each.ip;
    const std::vector<model::ScrapeTarget> targets_before = targets;
    if (draw(4) == 0 && !targets.empty()) {
      const auto target = targets[draw(static_cast<unsigned>(targets.size()))];
      const bool up = draw(2) == 0;
      store.set_reachable(target.record->id(), up);
      if (target.is_static) down[target.record->key()] = !up;
    } else {
      set.servers.clear();
      set.pods.clear();
      for (unsigned i = 0, count = draw(4); i < count; ++i) {
        auto each = server("s" + std::to_string(i), labels());
        each.meta.ns = draw(4) == 0 ? "other" : "default";
        set.servers.push_back(std::move(each));
      }
      for (unsigned i = 0; i < 8; ++i) {
        if (draw(4) == 0) continue;
        auto each = pod("p" + std::to_string(i), labels(), "10.0.0." + std::to_string(draw(10) == 0 ? 200 + i : i));
        each.is_static = i % 3 == 0;
        each.ready = draw(6) != 0;
        each.meta.uid = draw(12) == 0 ? "u2" : "u1";
        set.pods.push_back(std::move(each));
      }
      std::shuffle(set.pods.begin(), set.pods.end(), random);
      store.replace(set);
    }

    // The naive model: who must be in rotation now.
    std::map<std::string, Strings> expected;
    Strings expected_targets;
    for (const auto& each : set.servers) expected[each.meta.key()];
    for (const auto& each : set.pods) {
      bool bound = false;
      for (const auto& owner : set.servers) {
        if (owner.selector.empty() || owner.meta.ns != each.meta.ns || !each.ready) continue;
        bool all = true;
        for (const auto& [label, value] : owner.selector) {
          all = all && each.meta.labels.count(label) == 1 && each.meta.labels.at(label) == value;
        }
        bound = bound || all;
      }
      const std::string key = each.meta.key();
      // A pod that was out or is another incarnation starts in rotation.
      const bool was_target = std::any_of(targets_before.begin(), targets_before.end(),
                                          [&](const auto& target) { return target.record->key() == key; });
      if (!bound || !was_target || identity_before[key] != each.meta.uid + each.ip) {
        if (bound && !was_target) down[key] = false;
        if (bound && identity_before[key] != each.meta.uid + each.ip) down[key] = false;
      }
      if (bound) expected_targets.push_back(key);
      for (const auto& owner : set.servers) {
        if (owner.selector.empty() || owner.meta.ns != each.meta.ns || !each.ready || down[key]) continue;
        bool all = true;
        for (const auto& [label, value] : owner.selector) {
          all = all && each.meta.labels.count(label) == 1 && each.meta.labels.at(label) == value;
        }
        if (all) expected[owner.meta.key()].push_back(key);
      }
    }
    std::sort(expected_targets.begin(), expected_targets.end());
    Strings got_targets;
    for (const auto& target : targets) got_targets.push_back(target.record->key());
    CHECK(got_targets == expected_targets);

    std::set<wr::PodId> in_rotation;
    std::map<std::string, Strings> got;
    for (const auto& [key, entry] : store.snapshot()->servers) {
      got[key];
      for (const auto& each : entry->pods) {
        got[key].push_back(each.record->key());
        in_rotation.insert(each.record->id());
        CHECK_FALSE(each.record->left());
      }
    }
    for (auto& [key, names] : expected) std::sort(names.begin(), names.end());
    CHECK(got == expected);
    // Joined and not left is the same as in rotation.
    std::set<wr::PodId> joined;
    for (const auto& [id, record] : joined_now) joined.insert(id);
    CHECK(joined == in_rotation);
    for (const auto& id : ever) CHECK(id.slot < 16);  // slots do not leak: at most 8 pods, each twice in one step
  }
  store.replace({});
  CHECK(joined_now.empty());
  CHECK(ever.size() > 20);
}

TEST_CASE("1,000 pods, 500 servers and 10,000 routes", "[store]") {
  model::ResourceSet set;
  for (int i = 0; i < 1000; ++i) {
    set.pods.push_back(pod("p" + std::to_string(i), {{"app", "x" + std::to_string(i % 500)}, {"tier", "gpu"}}));
  }
  for (int i = 0; i < 500; ++i) {
    set.servers.push_back(server("s" + std::to_string(i), {{"app", "x" + std::to_string(i)}, {"tier", "gpu"}}));
  }
  for (int i = 0; i < 10000; ++i) set.routes.push_back(route("r" + std::to_string(i), "m" + std::to_string(i)));
  Recorder r;
  r.store.replace(set);
  CHECK(r.targets.size() == 1000);
  CHECK(r.store.snapshot()->routes.size() == 10000);
  CHECK(r.pods_of("default/s7") == Strings{"default/p507", "default/p7"});
  r.take_events();
  const auto start = std::chrono::steady_clock::now();
  r.store.replace(set);
  const auto spent = std::chrono::steady_clock::now() - start;
  CHECK(r.take_events().empty());
  CHECK(spent < std::chrono::seconds(5));  // generous: a quadratic step over the routes alone takes longer
}
