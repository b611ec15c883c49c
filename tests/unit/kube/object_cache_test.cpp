#include "kube/object_cache.hpp"

#include <catch2/catch.hpp>

#include "config/resource_objects.hpp"
#include "kube_world.hpp"

namespace warmroute::kube {
namespace {

using test::list_json;
using test::pod_json;
using Pods = ObjectCache<model::Pod>;

struct World {
  std::vector<std::string> problems;
  Pods pods{config::pod_of, [this](const config::Diagnostics& found) {
              for (const auto& each : found) problems.push_back(each.text());
            }};

  Applied list(int version, const std::vector<std::string>& items, bool trust = false) {
    pods.begin_list();
    for (const auto& item : items) pods.list_item(item);
    return pods.end_list(std::to_string(version), trust);
  }
  [[nodiscard]] std::string shown() const {
    std::string out;
    for (const auto& [key, entry] : pods.entries())
      out += entry.object.meta.name + "@" + std::to_string(entry.version) + " ";
    return out;
  }
};

}  // namespace

TEST_CASE("kube cache: events add, change and delete") {
  World world;
  CHECK(world.list(10, {pod_json("a", 5)}) == Applied::changed);
  CHECK(world.pods.event(EventType::added, pod_json("b", 11)) == Applied::changed);
  CHECK(world.pods.event(EventType::modified, pod_json("a", 12)) == Applied::unchanged);  // only its version
  CHECK(world.pods.event(EventType::modified, pod_json("a", 13, "10.0.0.1", "u1", false)) == Applied::changed);
  CHECK(world.shown() == "a@13 b@11 ");
  CHECK_FALSE(world.pods.entries().at("ns/a").object.ready);
  CHECK(world.pods.event(EventType::deleted, pod_json("b", 14)) == Applied::changed);
  CHECK(world.pods.event(EventType::deleted, pod_json("b", 15)) == Applied::unchanged);
  CHECK(world.shown() == "a@13 ");
  CHECK(world.pods.resource_version() == "15");
  CHECK(world.pods.bookmark("20"));
  CHECK(world.pods.bookmark("20"));
  CHECK(world.pods.resource_version() == "20");
  CHECK_FALSE(world.pods.bookmark("19"));
  CHECK(world.pods.resource_version() == "20");
}

TEST_CASE("kube cache: a list finds deletions that no event told, and additions") {
  World world;
  world.list(10, {pod_json("a", 5), pod_json("b", 6)});
  CHECK(world.list(12, {pod_json("a", 5)}) == Applied::changed);
  CHECK(world.shown() == "a@5 ");
  CHECK(world.list(13, {pod_json("a", 5)}) == Applied::unchanged);
  CHECK(world.list(14, {pod_json("a", 5), pod_json("c", 14)}) == Applied::changed);
}

TEST_CASE("kube cache: what is older than known changes nothing") {
  World world;
  world.list(10, {pod_json("a", 5)});
  world.pods.event(EventType::modified, pod_json("a", 12, "10.0.0.2"));
  world.pods.event(EventType::deleted, pod_json("b", 13));
  CHECK(world.pods.event(EventType::modified, pod_json("a", 11, "10.0.0.1")) == Applied::stale);
  CHECK(world.pods.event(EventType::added, pod_json("b", 9)) == Applied::stale);
  CHECK(world.pods.event(EventType::deleted, pod_json("a", 9)) == Applied::stale);
  CHECK(world.list(10, {pod_json("a", 5), pod_json("b", 9)}) == Applied::stale);
  CHECK(world.shown() == "a@12 ");
  CHECK(world.pods.entries().at("ns/a").object.ip == "10.0.0.2");
  // Unless it is the only truth there is: a cluster restored from a backup.
  CHECK(world.list(7, {pod_json("a", 5), pod_json("b", 6)}, true) == Applied::changed);
  CHECK(world.shown() == "a@5 b@6 ");
  CHECK(world.pods.event(EventType::added, pod_json("c", 8)) == Applied::changed);
}

TEST_CASE("kube cache: events that come while a list is read are kept") {
  World world;
  world.list(10, {pod_json("a", 5), pod_json("b", 6), pod_json("lost", 7)});
  world.pods.begin_list();
  world.pods.list_item(pod_json("a", 5));
  world.pods.event(EventType::modified, pod_json("a", 22, "10.0.0.9"));
  world.pods.event(EventType::deleted, pod_json("b", 23));
  world.pods.event(EventType::added, pod_json("new", 24));
  world.pods.list_item(pod_json("b", 6));
  CHECK(world.pods.end_list("20", false) == Applied::changed);  // `lost` is gone
  CHECK(world.shown() == "a@22 new@24 ");
  CHECK(world.pods.resource_version() == "24");
}

TEST_CASE("kube cache: a pod that was created again under its name is another one") {
  World world;
  world.list(10, {pod_json("a", 5)});
  CHECK(world.pods.event(EventType::deleted, pod_json("a", 11)) == Applied::changed);
  CHECK(world.pods.event(EventType::added, pod_json("a", 12, "10.0.0.1", "u2")) == Applied::changed);
  CHECK(world.pods.entries().at("ns/a").object.meta.uid == "u2");
  // Both events lost: the list says it.
  CHECK(world.list(20, {pod_json("a", 15, "10.0.0.1", "u3")}) == Applied::changed);
  CHECK(world.pods.entries().at("ns/a").object.meta.uid == "u3");
}

TEST_CASE("kube cache: an object that cannot be used keeps its last good version, and is told once") {
  World world;
  world.list(10, {pod_json("a", 5)});
  CHECK(world.pods.event(EventType::modified, pod_json("a", 11, "no-address")) == Applied::unchanged);
  CHECK(world.pods.entries().at("ns/a").object.ip == "10.0.0.1");
  REQUIRE(world.problems.size() == 1);
  CHECK(world.problems[0].find("Pod ns/a: status.podIP: ") == 0);
  CHECK(world.list(12, {pod_json("a", 11, "no-address")}) == Applied::unchanged);
  CHECK(world.problems.size() == 1);
  CHECK(world.shown() == "a@5 ");
  CHECK(world.pods.event(EventType::modified, pod_json("a", 13, "10.0.0.7")) == Applied::changed);
  CHECK(world.pods.event(EventType::deleted, pod_json("a", 14, "no-address")) == Applied::changed);
}

TEST_CASE("kube cache: objects without a good version are known by their problem") {
  World world;
  world.list(10, {pod_json("a", 5), pod_json("b", 6, "no-address")});
  using Keys = std::map<std::string, Unusable>;
  const Keys only_b{{"ns/b", {"u1", world.pods.unusable().at("ns/b").problem}}};
  CHECK(world.pods.unusable() == only_b);
  CHECK("Pod ns/b: " + only_b.at("ns/b").problem == world.problems.at(0));
  world.pods.event(EventType::modified, pod_json("a", 11, "no-address"));  // its good version stays
  CHECK(world.pods.unusable() == only_b);
  world.pods.event(EventType::modified, pod_json("b", 12, "no-address"));
  CHECK(world.problems.size() == 2);  // those of b were told
  world.pods.event(EventType::modified, pod_json("b", 13, "wrong-too"));
  CHECK(world.problems.size() == 3);
  SECTION("mended") { world.pods.event(EventType::modified, pod_json("b", 14)); }
  SECTION("deleted") { world.pods.event(EventType::deleted, pod_json("b", 14, "wrong-too")); }
  SECTION("gone from the list") { world.list(14, {pod_json("a", 5)}); }
  CHECK(world.pods.unusable().empty());
}

TEST_CASE("kube cache: what is no object asks for a new list") {
  World world;
  world.list(10, {pod_json("a", 5)});
  for (const char* wrong : {"", "[]", "{}", R"({"metadata":1})", R"({"metadata":{}})"})
    CHECK(world.pods.event(EventType::added, wrong) == Applied::broken);
  world.pods.begin_list();
  world.pods.list_item("7");
  CHECK(world.pods.end_list("20", false) == Applied::broken);
  CHECK(world.shown() == "a@5 ");
}

TEST_CASE("kube cache: versions that are no numbers are not compared") {
  ObjectCache<model::Pod> pods(config::pod_of, [](const auto&) {});
  const auto with = [](const std::string& version) {
    auto text = pod_json("a", 1);
    return text.replace(text.find(R"("resourceVersion":"1")"), 21, R"("resourceVersion":")" + version + "\"");
  };
  CHECK(pods.event(EventType::added, with("zz")) == Applied::changed);
  CHECK(pods.event(EventType::modified, with("aa")) == Applied::unchanged);
  CHECK(pods.resource_version() == "aa");
}

TEST_CASE("kube lists and events are read whole or refused") {
  const auto page = parse_list(list_json(7, {pod_json("a", 1), pod_json("b", 2)}, "next"));
  REQUIRE(page.has_value());
  CHECK(page->resource_version == "7");
  CHECK(page->next == "next");
  REQUIRE(page->items.size() == 2);
  CHECK(parse_object_head(page->items[1])->key() == "ns/b");
  CHECK(parse_list(R"({"items":null,"metadata":{"resourceVersion":"3"}})")->items.empty());
  for (const char* wrong : {"", "{", "[]", "null", R"({"metadata":{"resourceVersion":"1"}})",
                            R"({"items":[],"metadata":{}})", R"({"items":[1],"metadata":{"resourceVersion":"1"}})",
                            R"({"items":[{"a":1},"metadata":{"resourceVersion":"1"}})"})
    CHECK_FALSE(parse_list(wrong).has_value());
  const auto whole = test::event_json("MODIFIED", pod_json("a", 1));
  CHECK(parse_event(whole)->type == EventType::modified);
  for (std::size_t cut = 0; cut + 2 < whole.size(); ++cut) CHECK_FALSE(parse_event(whole.substr(0, cut)).has_value());
  CHECK(parse_event(R"({"type":"LATER","object":{}})")->type == EventType::unknown);
  CHECK_FALSE(parse_event(R"({"type":"ADDED"})").has_value());
  const auto status = parse_error_status(test::status_json(410, "Expired"));
  CHECK(status.code == 410);
  CHECK(status.reason == "Expired");
  CHECK(version_number("18446744073709551616") == 0);
  CHECK(version_number("12") == 12);
  CHECK(version_number("1x") == 0);
}

}  // namespace warmroute::kube
