// A cache that is told the truth late, twice, in part or not at all never goes back, and a list puts it right.
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "config/resource_objects.hpp"
#include "kube/object_cache.hpp"
#include "unit/kube/kube_world.hpp"

namespace warmroute::kube {
namespace {

using test::pod_json;

/// The API server: every version of everything, so that old states can be served.
struct Server {
  struct Event {
    EventType type;
    std::string object;
    int version;
  };
  using State = std::map<std::string, std::string>;

  explicit Server(std::mt19937& generator) : random(generator) { states[version] = {}; }

  void change() {
    State next = states.rbegin()->second;
    const std::string name(1, static_cast<char>('a' + random() % 6));
    ++version;
    if (next.count(name) != 0 && random() % 3 == 0) {
      next.erase(name);
      events.push_back({EventType::deleted, pod(name), version});
    } else {
      const auto type = next.count(name) != 0 ? EventType::modified : EventType::added;
      next[name] = pod(name);
      events.push_back({type, next[name], version});
    }
    states[version] = std::move(next);
  }
  /// Every version has an address of its own, so that an old one shows.
  std::string pod(const std::string& name) const {
    return pod_json(name, version, "10.0." + std::to_string(version / 250) + "." + std::to_string(version % 250));
  }

  std::mt19937& random;
  int version = 1;
  std::map<int, State> states;
  std::vector<Event> events;
};

using Pods = ObjectCache<model::Pod>;

void give_list(Pods& pods, const Server& server, int version) {
  pods.begin_list();
  for (const auto& [name, object] : server.states.at(version)) pods.list_item(object);
  (void)pods.end_list(std::to_string(version), false);
}

bool equals(const Pods& pods, const Server::State& state) {
  Pods want(config::pod_of, [](const auto&) {});
  want.begin_list();
  for (const auto& [name, object] : state) want.list_item(object);
  (void)want.end_list("1", false);
  if (want.size() != pods.size()) return false;
  return std::equal(
      pods.entries().begin(), pods.entries().end(), want.entries().begin(),
      [](const auto& a, const auto& b) { return a.first == b.first && a.second.object == b.second.object; });
}

}  // namespace

TEST_CASE("kube cache: random histories with lost, doubled and late news") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  for (int round = 0; round < 60; ++round) {
    Server server(random);
    Pods pods(config::pod_of, [](const auto&) {});
    give_list(pods, server, 1);
    std::map<std::string, std::uint64_t> highest;
    std::size_t told = 0;
    bool lossless = true;
    for (int step = 0; step < 80; ++step) {
      server.change();
      const auto dice = random() % 10;
      if (dice < 6) {  // everything so far, in order, some of it again
        for (auto at = told == 0 ? 0 : told - random() % std::min<std::size_t>(told, 3); at < server.events.size();
             ++at)
          (void)pods.event(server.events[at].type, server.events[at].object);
        told = server.events.size();
      } else if (dice == 6) {  // one is lost
        told = server.events.size();
        lossless = false;
      } else if (dice == 7) {  // an old list
        give_list(pods, server, 1 + static_cast<int>(random() % static_cast<unsigned>(server.version)));
      } else if (dice == 8) {  // a list, with events while it is read
        const int at = server.version;
        pods.begin_list();
        for (const auto& [name, object] : server.states.at(at)) {
          if (random() % 3 == 0) server.change();
          for (; told < server.events.size(); ++told)
            (void)pods.event(server.events[told].type, server.events[told].object);
          pods.list_item(object);
        }
        (void)pods.end_list(std::to_string(at), false);
        for (; told < server.events.size(); ++told)
          (void)pods.event(server.events[told].type, server.events[told].object);
        lossless = true;
        REQUIRE(equals(pods, server.states.rbegin()->second));
      }
      if (lossless && told == server.events.size()) REQUIRE(equals(pods, server.states.rbegin()->second));
      for (const auto& [key, entry] : pods.entries()) {
        REQUIRE(entry.version >= highest[key]);
        highest[key] = entry.version;
      }
    }
    give_list(pods, server, server.version);
    REQUIRE(equals(pods, server.states.rbegin()->second));
  }
}

}  // namespace warmroute::kube
