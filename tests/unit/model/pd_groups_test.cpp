#include "model/pd_groups.hpp"

#include <catch2/catch.hpp>

#include "model/store.hpp"

namespace warmroute::test {
namespace {

using namespace warmroute::model;

PdGroup spec() { return PdGroup{"group", {{"role", "prefill"}}, {{"role", "decode"}}}; }

TEST_CASE("the role of a pod comes from its labels, decode first", "[pd]") {
  const auto role = [](const PdGroup& group, const Labels& labels) { return pd_role(group, labels); };
  CHECK(role(spec(), {{"group", "g"}, {"role", "prefill"}}) == PdRole::prefill);
  CHECK(role(spec(), {{"group", "g"}, {"role", "decode"}}) == PdRole::decode);
  CHECK(role(spec(), {{"group", "g"}, {"role", "other"}}) == PdRole::none);
  CHECK(role(spec(), {{"group", ""}, {"role", "decode"}}) == PdRole::none);
  CHECK(role(spec(), {{"role", "decode"}}) == PdRole::none);
  CHECK(role({"group", {{"a", "1"}}, {{"b", "1"}}}, {{"group", "g"}, {"a", "1"}, {"b", "1"}}) == PdRole::decode);
  CHECK(role({"group", {{"a", "1"}, {"c", "1"}}, {}}, {{"group", "g"}, {"a", "1"}}) == PdRole::none);
  CHECK(role({"group", {}, {}}, {{"group", "g"}}) == PdRole::none);
}

/// A store with one PD server and the groups of its last snapshot as text.
struct Groups {
  Store store{Store::Hooks{}};
  ResourceSet set;

  Groups() {
    ModelServer server;
    server.meta.name = "s";
    server.selector = {{"app", "a"}};
    server.pd_group = spec();
    server.port = 8000;
    set.servers.push_back(server);
  }
  void pod(const std::string& name, const std::string& group, const std::string& role) {
    for (auto& known : set.pods) {
      if (known.meta.name != name) continue;
      known.meta.labels = {{"app", "a"}, {"group", group}, {"role", role}};
      return;
    }
    Pod made;
    made.meta.name = name;
    made.meta.labels = {{"app", "a"}, {"group", group}, {"role", role}};
    made.ip = "10.0.0." + std::to_string(set.pods.size() + 1);
    made.is_static = true;
    set.pods.push_back(made);
  }
  std::string text() {
    store.replace(set);
    return now();
  }
  std::string now() {
    const auto server = store.snapshot()->server("default/s");
    std::string out;
    for (const auto& group : server->groups) {
      out += group.value + ":";
      for (const auto i : group.prefill) out += " p=" + server->pods[i].record->name();
      for (const auto i : group.decode) out += " d=" + server->pods[i].record->name();
      out += ";";
    }
    return out;
  }
};

TEST_CASE("groups follow the labels of pods that come, go and change", "[pd]") {
  Groups world;
  CHECK(world.text().empty());
  world.pod("p1", "g1", "prefill");
  world.pod("d1", "g1", "decode");
  world.pod("d2", "g2", "decode");
  CHECK(world.text() == "g1: p=p1 d=d1;g2: d=d2;");
  const auto record = world.store.snapshot()->server("default/s")->pods[0].record;

  SECTION("a relabelled pod is in its new group only, and stays the same incarnation") {
    world.pod("d1", "g2", "decode");
    CHECK(world.text() == "g1: p=p1;g2: d=d1 d=d2;");
    world.pod("d1", "g2", "prefill");
    CHECK(world.text() == "g1: p=p1;g2: p=d1 d=d2;");
    CHECK(world.store.snapshot()->server("default/s")->pods[0].record == record);
    CHECK_FALSE(record->left());
  }
  SECTION("a pod that loses its group is selected still, and plays no role") {
    world.pod("d1", "", "decode");
    CHECK(world.text() == "g1: p=p1;g2: d=d2;");
    CHECK(world.store.snapshot()->server("default/s")->pods.size() == 3);
  }
  SECTION("a group without members is gone") {
    world.set.pods.pop_back();
    CHECK(world.text() == "g1: p=p1 d=d1;");
  }
  SECTION("a pod that does not answer leaves its group, and comes back") {
    world.store.set_reachable(record->id(), false);
    CHECK(world.now() == "g1: p=p1;g2: d=d2;");
    world.store.set_reachable(record->id(), true);
    CHECK(world.now() == "g1: p=p1 d=d1;g2: d=d2;");
  }
  SECTION("labels that change nothing give the same entry") {
    const auto before = world.store.snapshot()->server("default/s");
    world.set.pods[0].meta.labels["other"] = "x";
    (void)world.text();
    CHECK(world.store.snapshot()->server("default/s") == before);
  }
}

}  // namespace
}  // namespace warmroute::test
