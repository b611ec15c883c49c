// Every fault of a watch, by a server whose answers are scripted.
#include "kube/reflector.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <deque>

#include "config/resource_objects.hpp"
#include "kube_world.hpp"
#include "support/run_coro.hpp"
#include "support/scripted_engine.hpp"

namespace warmroute::kube {
namespace {

using std::chrono::milliseconds;
using namespace test;  // NOLINT(google-build-using-namespace): the texts of the world
using Reply = ScriptedEngine::Reply;

std::string chunked(const std::string& bytes) {
  char size[16];
  (void)std::snprintf(size, sizeof size, "%zx\r\n", bytes.size());
  return size + bytes + "\r\n";
}
const std::string stream_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

Reply listing(int version, const std::vector<std::string>& items, const std::string& next = "") {
  return {http_answer(200, list_json(version, items, next))};
}
/// Events, then silence.
Reply open_stream(const std::string& events = "") {
  return {stream_head + (events.empty() ? "" : chunked(events)), false, true};
}
/// Events, then an orderly end.
Reply closed_stream(const std::string& events) { return {stream_head + chunked(events) + "0\r\n\r\n"}; }

/// A reflector of pods, and a server that gives the scripted answers in order; after the last, streams that say
/// nothing.
struct World {
  explicit World(std::deque<Reply> script, ReflectorTiming timing = fast()) : replies(std::move(script)) {
    Config config;
    config.tls = false;
    config.host = "127.0.0.1";
    config.port = server.port();
    ClientOptions options;
    options.qps = 10'000;
    options.burst = 10'000;
    client = std::make_shared<Client>(io, config, options);
    ReflectorSpec spec;
    spec.name = "pods";
    spec.path = "/api/v1/namespaces/ns/pods";
    spec.label_selector = "app=a";
    spec.timing = timing;
    reflector = std::make_unique<Reflector>(io, tasks, client, pods, counters, spec, [this] { ++changes; });
    reflector->start();
  }
  ~World() {
    reflector.reset();
    client->close();
    run_until(io, [this] { return tasks.running() == 0; });
    CHECK(tasks.running() == 0);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  static ReflectorTiming fast() {
    ReflectorTiming timing;
    timing.backoff = {milliseconds(2), milliseconds(10)};
    timing.silence = std::chrono::seconds(20);
    timing.answer = std::chrono::seconds(5);
    timing.relist = milliseconds(0);
    return timing;
  }

  [[nodiscard]] std::string shown() const {
    std::string out;
    for (const auto& [key, entry] : pods->entries())
      out += (out.empty() ? "" : " ") + entry.object.meta.name + "@" + entry.object.ip;
    return out;
  }
  bool reaches(const std::string& state, std::size_t requests = 0) {
    const bool reached = run_until(io, [&] { return shown() == state && server.requests().size() >= requests; });
    if (!reached) {
      UNSCOPED_INFO("is: " << shown() << ", requests:");
      for (const auto& head : server.requests()) UNSCOPED_INFO(head.substr(0, head.find('\r')));
    }
    return reached;
  }
  /// The request line's target of the n-th request.
  [[nodiscard]] std::string target(std::size_t n) const {
    const auto& head = server.requests().at(n);
    return head.substr(4, head.find(" HTTP") - 4);
  }

  net::io_context io;
  std::deque<Reply> replies;
  ScriptedEngine server{io, [this](const std::string&, int) {
                          if (replies.empty()) return open_stream();
                          Reply next = replies.front();
                          replies.pop_front();
                          return next;
                        }};
  net::TaskGroup tasks{io};
  std::shared_ptr<Client> client;
  std::shared_ptr<ObjectCache<model::Pod>> pods =
      std::make_shared<ObjectCache<model::Pod>>(config::pod_of, [](const auto&) {});
  std::shared_ptr<ReflectorCounters> counters = std::make_shared<ReflectorCounters>();
  int changes = 0;
  std::unique_ptr<Reflector> reflector;
};

const std::string a1 = pod_json("a", 5, "10.0.0.1");
const std::string b1 = pod_json("b", 6, "10.0.0.2");

}  // namespace

TEST_CASE("reflector: a list in pages, then a watch from its version") {
  World world({listing(10, {a1}, "p 2"), listing(10, {b1}), open_stream(event_json("DELETED", pod_json("a", 11)))});
  REQUIRE(world.reaches("b@10.0.0.2"));
  CHECK(world.target(0) == "/api/v1/namespaces/ns/pods?limit=250&labelSelector=app%3Da");
  CHECK(world.target(1).find("limit=250&continue=p%202&") != std::string::npos);
  CHECK(world.target(2).find("?watch=1&allowWatchBookmarks=true&timeoutSeconds=") != std::string::npos);
  CHECK(world.target(2).find("&resourceVersion=10&labelSelector=app%3Da") != std::string::npos);
  CHECK(world.reflector->synced());
  CHECK(world.reflector->connected());
  CHECK(world.reflector->age(net::Clock::now()).count() == 0);
  CHECK(world.changes == 2);
}

TEST_CASE("reflector: an empty list is a state, too") {
  World world({listing(10, {})});
  REQUIRE(run_until(world.io, [&] { return world.reflector->connected(); }));
  CHECK(world.reflector->synced());
  CHECK(world.changes == 1);
}

TEST_CASE("reflector: a page that expired asks for the list again, whole") {
  World world({listing(10, {a1}, "p2"), {http_answer(410, status_json(410, "Expired"))}, listing(12, {b1})});
  REQUIRE(world.reaches("b@10.0.0.2"));
  CHECK(world.target(2).find("?limit=0&label") != std::string::npos);
}

TEST_CASE("reflector: 410 on the watch, as status or as event, leads to a list that is compared") {
  for (const Reply& gone : {Reply{http_answer(410, status_json(410, "Expired"))},
                            open_stream(event_json("ERROR", status_json(410, "Expired")))}) {
    World world({listing(10, {a1, b1}), gone, listing(20, {b1, pod_json("c", 15, "10.0.0.3")})});
    REQUIRE(world.reaches("b@10.0.0.2 c@10.0.0.3", 4));
    CHECK(world.target(3).find("resourceVersion=20") != std::string::npos);
  }
}

TEST_CASE("reflector: refusals and errors keep the state, and pass") {
  const auto refused = [](int status) { return Reply{http_answer(status, status_json(status, "X"))}; };
  for (const auto& fault : {refused(401), refused(403), refused(429), refused(500), refused(503), refused(504),
                            open_stream(event_json("ERROR", status_json(500, "InternalError"))),
                            open_stream(event_json("ERROR", status_json(429, "TooManyRequests"))), Reply{"", true},
                            Reply{"noise\r\n", true}, closed_stream(""), closed_stream(bookmark_json(10))}) {
    World world({listing(10, {a1}), fault, fault, open_stream(event_json("ADDED", b1))});
    // `b` is older than the list's version: it came only so that the end is seen.
    REQUIRE(run_until(world.io, [&] { return world.counters->stale == 1; }));
    CHECK(world.shown() == "a@10.0.0.1");
    CHECK(world.changes == 1);
    CHECK(world.counters->lists == 1);
  }
}

TEST_CASE("reflector: lists that fail before the first are asked again; nothing counts as synced before") {
  World world({{http_answer(500, "")},
               {http_answer(403, status_json(403, "Forbidden"))},
               {"", true},
               {http_answer(200, "{\"items\":[")},
               {http_answer(200, "{}")},
               listing(10, {a1}, "p2"),
               {http_answer(500, "")},
               listing(11, {b1})});
  REQUIRE(run_until(world.io, [&] { return world.server.requests().size() == 5; }));
  CHECK_FALSE(world.reflector->synced());
  CHECK(world.changes == 0);
  REQUIRE(world.reaches("b@10.0.0.2"));  // the first half of a list that was cut does not count
}

TEST_CASE("reflector: a stream that ends goes on from the last event; half an event at its cut does not count") {
  const auto event = event_json("ADDED", pod_json("b", 11, "10.0.0.2"));
  const auto half = event_json("ADDED", pod_json("c", 12, "10.0.0.3"));
  World world({listing(10, {a1}),
               {stream_head + chunked(event) + chunked(half.substr(0, 40)), true},
               open_stream(event_json("DELETED", pod_json("a", 13)))});
  REQUIRE(world.reaches("b@10.0.0.2"));
  CHECK(world.target(2).find("&resourceVersion=11&") != std::string::npos);
}

TEST_CASE("reflector: a bookmark moves the version on") {
  World world({listing(10, {a1}), closed_stream(bookmark_json(50))});
  REQUIRE(world.reaches("a@10.0.0.1", 3));
  CHECK(world.target(2).find("&resourceVersion=50&") != std::string::npos);
}

TEST_CASE("reflector: a silent stream is replaced, and its age counts from its last word") {
  auto timing = World::fast();
  timing.silence = milliseconds(60);
  World world({listing(10, {a1}),
               open_stream(),
               {http_answer(500, "")},
               {http_answer(500, "")},
               open_stream(event_json("DELETED", pod_json("a", 11)))},
              timing);
  REQUIRE(run_until(world.io, [&] { return world.server.requests().size() >= 3; }));
  CHECK(world.reflector->age(net::Clock::now()) >= milliseconds(55));
  CHECK(world.shown() == "a@10.0.0.1");
  REQUIRE(world.reaches(""));
}

TEST_CASE("reflector: broken events lead to a list") {
  for (const std::string& wrong : {std::string("{\"type\":\"ADDED\",\n"), event_json("ADDED", "7"),
                                   event_json("MODIFIED", "{\"metadata\":{}}"), std::string("hello\n")}) {
    World world({listing(10, {a1}), open_stream(wrong), listing(20, {b1})});
    REQUIRE(world.reaches("b@10.0.0.2"));
    CHECK(world.counters->failures == 1);
  }
}

TEST_CASE("reflector: an unknown kind of event is passed over") {
  World world({listing(10, {a1}), open_stream(event_json("LATER", "{}") + event_json("DELETED", pod_json("a", 11)))});
  REQUIRE(world.reaches(""));
  CHECK(world.counters->failures == 0);
}

TEST_CASE("reflector: an API server that lags brings nothing old back, a restored cluster is followed in the end") {
  const auto gone = Reply{http_answer(410, status_json(410, "Expired"))};
  World lags({listing(10, {a1}), closed_stream(event_json("DELETED", pod_json("a", 30))), gone, listing(10, {a1}),
              listing(31, {b1})});
  REQUIRE(lags.reaches("b@10.0.0.2"));
  CHECK(lags.counters->stale == 1);
  CHECK(lags.changes == 3);  // a, none, b: never a again

  std::deque<Reply> script{listing(1000, {b1}), gone};
  for (int i = 0; i < 6; ++i) script.push_back(listing(10, {a1}));
  World restored(std::move(script));
  REQUIRE(restored.reaches("a@10.0.0.1"));
  CHECK(restored.counters->stale == 5);
}

TEST_CASE("reflector: watches that are not answered, or stay silent, lead to a list") {
  auto timing = World::fast();
  timing.answer = timing.silence = milliseconds(200);
  for (const Reply& mute : {Reply{"", false, true}, open_stream()}) {
    World world({listing(1000, {a1}), mute, mute, listing(1001, {b1})}, timing);
    REQUIRE(world.reaches("b@10.0.0.2"));
    CHECK(world.target(1).find("watch=1") != std::string::npos);
    CHECK(world.target(2).find("watch=1") != std::string::npos);
    CHECK(world.counters->failures == 2);
  }
}

TEST_CASE("reflector: a restored cluster that takes the old version is followed in the end") {
  const auto older = [](std::deque<Reply> script, int lists) {
    for (int i = 0; i < lists; ++i) script.push_back(listing(10, {a1}));
    return script;
  };
  const auto old_word = closed_stream(bookmark_json(11));
  World by_bookmarks(older({listing(1000, {b1}), old_word, old_word}, 6));
  REQUIRE(by_bookmarks.reaches("a@10.0.0.1"));
  CHECK(by_bookmarks.counters->stale == 5);

  auto timing = World::fast();
  timing.relist = milliseconds(40);
  World by_lists(older({listing(1000, {b1}), open_stream(bookmark_json(11))}, 8), timing);
  REQUIRE(by_lists.reaches("a@10.0.0.1"));
  CHECK(by_lists.counters->stale == 7);  // two of them beside the watch

  World by_turns({listing(1000, {b1}), open_stream(), listing(10, {a1}), listing(1000, {b1}), listing(10, {a1}),
                  listing(1001, {b1, pod_json("c", 1001, "10.0.0.3")})},
                 timing);
  REQUIRE(by_turns.reaches("b@10.0.0.2 c@10.0.0.3"));
  CHECK(by_turns.counters->stale == 2);
  CHECK(by_turns.counters->failures == 0);  // its watch went on
}

TEST_CASE("reflector: refusals that wish for no pause get one, and are told") {
  const Reply busy{http_answer(429, status_json(429, "TooManyRequests"), "Retry-After: 0\r\n")};
  auto timing = World::fast();
  timing.backoff = {milliseconds(100), milliseconds(100)};
  World world({listing(10, {a1}), busy, busy, busy, open_stream(event_json("DELETED", pod_json("a", 11)))}, timing);
  REQUIRE(world.reaches("a@10.0.0.1"));
  const auto start = net::Clock::now();
  REQUIRE(world.reaches(""));
  CHECK(net::Clock::now() - start >= milliseconds(150));  // three pauses of 50 to 100 ms
  CHECK(world.counters->failures == 3);
}

TEST_CASE("reflector: a deletion that was never told is found by the list beside the watch, which goes on") {
  auto timing = World::fast();
  timing.relist = milliseconds(40);
  World world({listing(10, {a1, b1}), open_stream(), listing(20, {b1})}, timing);
  world.replies.push_back(listing(20, {b1}));
  REQUIRE(world.reaches("b@10.0.0.2"));
  CHECK(world.counters->repaired == 1);
  CHECK(world.reflector->connected());
  std::size_t watches = 0;
  for (const auto& head : world.server.requests()) watches += head.find("watch=1") != std::string::npos ? 1U : 0U;
  CHECK(watches == 1);
}

TEST_CASE("reflector: a server that is down for a while") {
  World world({listing(10, {a1}), open_stream()});
  REQUIRE(run_until(world.io, [&] { return world.reflector->connected(); }));
  world.server.stop();
  REQUIRE(run_until(world.io, [&] { return world.counters->failures >= 5; }));
  CHECK(world.shown() == "a@10.0.0.1");
  CHECK(world.reflector->age(net::Clock::now()).count() > 0);
  CHECK_FALSE(world.reflector->connected());
}

TEST_CASE("reflector: what is destroyed is not heard of any more") {
  World world({listing(10, {a1}), open_stream()});
  REQUIRE(run_until(world.io, [&] { return world.reflector->connected(); }));
  const int before = world.changes;
  world.reflector.reset();
  REQUIRE(run_until(world.io, [&] { return world.tasks.running() == 0; }));
  CHECK(world.changes == before);
  Reflector never(world.io, world.tasks, world.client, world.pods, world.counters, {}, nullptr);
  CHECK_FALSE(never.synced());
}

}  // namespace warmroute::kube
