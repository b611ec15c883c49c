#include "status/writer.hpp"

#include <spdlog/fmt/fmt.h>

#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "net/task_group.hpp"
#include "support/run_coro.hpp"

using namespace warmroute;
using namespace warmroute::status;
using namespace std::chrono_literals;

namespace {

/// Objects with a generation and conditions; PATCH replaces the conditions, as a merge patch does.
class FakeObjects {
 public:
  explicit FakeObjects(net::io_context& loop) : io(loop) {}
  kube::Api api() {
    return [this](kube::Request request) { return serve(this, std::move(request)); };
  }
  struct Object {
    int generation = 1;
    std::string model = "m";
    std::string conditions = "[]";  ///< JSON
  };
  net::io_context& io;
  std::map<std::string, Object> objects;  ///< by path below v1alpha1/
  bool lists = false;                     ///< else lists fail, and each object is looked at
  int list_requests = 0;
  bool drops_conditions = false;
  int refuse_status = 0, refuse_events = 0;  ///< HTTP status
  std::set<std::string> broken;              ///< objects, whose status gives 500
  std::vector<std::string> asked, bodies;
  std::vector<std::string> events;  ///< "reason type"

  [[nodiscard]] std::size_t count(const std::string& method) const {
    std::size_t found = 0;
    for (const auto& each : asked) found += each.rfind(method + " ", 0) == 0 ? 1 : 0;
    return found;
  }

 private:
  static kube::Response answer(int status, std::string body = "{}") {
    kube::Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
  }
  static net::Task<Result<kube::Response>> serve(FakeObjects* self, kube::Request request) {
    co_await boost::asio::post(self->io, net::use_task);
    co_return self->serve_now(request);
  }
  static std::string member(const std::string& json, const std::string& name) {
    simdjson::dom::parser parser;
    const simdjson::dom::element root = parser.parse(json);
    const std::string_view text = root[name];
    return std::string(text);
  }
  static std::string text(const std::string& name, const Object& object) {
    return fmt::format(R"({{"metadata":{{"namespace":"ns","name":"{}","uid":"u","generation":{}}},)"
                       R"("spec":{{"modelName":"{}","rules":[]}},"status":{{"conditions":{}}}}})",
                       name, object.generation, object.model, object.conditions);
  }
  /// One object a page. The token is the name of the next one.
  kube::Response list(const std::string& plural, const std::string& from) {
    std::string items, next;
    for (const auto& [path, object] : objects) {
      if (path.rfind("ns/" + plural + "/", 0) != 0 || path.substr(path.rfind('/') + 1) < from) continue;
      if (!items.empty()) {
        next = path.substr(path.rfind('/') + 1);
        break;
      }
      items = text(path.substr(path.rfind('/') + 1), object);
    }
    return answer(200, R"({"metadata":{"continue":")" + next + R"("},"items":[)" + items + "]}");
  }
  kube::Response serve_now(const kube::Request& request) {
    if (const auto mark = request.path.find("?limit=250"); mark != std::string::npos) {
      ++list_requests;
      const auto from = request.path.find("&continue=");
      if (!lists) return answer(500);
      return list(request.path.substr(request.path.rfind('/', mark) + 1, mark - request.path.rfind('/', mark) - 1),
                  from == std::string::npos ? "" : request.path.substr(from + 10));
    }
    asked.push_back(request.method + " " + request.path);
    bodies.push_back(request.body);
    if (request.path.find("/events.k8s.io/v1/namespaces/ns/events") != std::string::npos) {
      if (refuse_events != 0) return answer(refuse_events);
      events.push_back(member(request.body, "reason") + " " + member(request.body, "type"));
      return answer(201);
    }
    const std::string root = "/apis/networking.serving.volcano.sh/v1alpha1/namespaces/";
    REQUIRE(request.path.rfind(root, 0) == 0);
    std::string path = request.path.substr(root.size());
    const bool status = path.ends_with("/status");
    if (status) path.resize(path.size() - 7);
    const auto it = objects.find(path);
    if (it == objects.end()) return answer(404);
    if (request.method == "PATCH") {
      REQUIRE(status);
      REQUIRE(request.content_type == "application/merge-patch+json");
      if (refuse_status != 0) return answer(refuse_status);
      if (broken.count(path) != 0) return answer(500);
      const std::string mark = R"({"status":{"conditions":)";
      REQUIRE(request.body.rfind(mark, 0) == 0);
      if (!drops_conditions)
        it->second.conditions = request.body.substr(mark.size(), request.body.size() - mark.size() - 2);
    }
    return answer(200, text(path.substr(path.rfind('/') + 1), it->second));
  }
};

/// Fingerprint of the spec with that model.
std::size_t spec(const std::string& model) {
  return fingerprint(Kind::model_route,
                     R"({"metadata":{"name":"x"},"spec":{"modelName":")" + model + R"(","rules":[]}})");
}

struct World {
  World() : objects(io), writer(io, objects.api(), options(), hooks()) {
    objects.objects["ns/modelroutes/r"] = {};
    verdicts = {verdict()};
    tasks.spawn("writer", writer.run());
  }
  static WriterOptions options() {
    WriterOptions options;
    options.instance = "me";
    options.gather = 5ms;
    options.pace = 1ms;
    options.retry = 10ms;
    return options;
  }
  WriterHooks hooks() {
    return {[this] { return leads; }, [this] { return verdicts; },
            [this] { return Moment(std::chrono::seconds(clock)); }};
  }
  static Verdict verdict(const std::string& name = "r") {
    return {Kind::model_route, "ns", name, "u", spec("m"), {{"Ready", true, "Ready", "requests are routed"}}};
  }
  void judge(bool good, const std::string& reason, const std::string& message = "why") {
    verdicts[0].conditions[0] = {"Ready", good, reason, message};
    writer.wake();
  }
  bool wait(const std::function<bool()>& reached, std::chrono::milliseconds limit = 5s) {
    return test::run_until(io, reached, limit);
  }
  void settle() {
    const auto before = objects.asked.size();
    wait([&] { return objects.asked.size() > before; }, 100ms);
    for (auto last = objects.asked.size() + 1; last != objects.asked.size();) {
      last = objects.asked.size();
      wait([] { return false; }, 60ms);
    }
  }
  std::string conditions() { return objects.objects["ns/modelroutes/r"].conditions; }

  net::io_context io;
  net::TaskGroup tasks{io};
  FakeObjects objects;
  bool leads = true;
  std::int64_t clock = 1'767'323'045;
  std::vector<Verdict> verdicts;
  Writer writer;
};

}  // namespace

TEST_CASE("A condition is written once, and again only when it differs", "[status]") {
  World world;
  world.settle();
  CHECK(world.conditions() ==
        R"([{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"2026-01-02T03:04:05Z",)"
        R"("reason":"Ready","message":"requests are routed"}])");
  CHECK(world.objects.asked.size() == 2);  // GET, PATCH
  world.writer.wake();
  world.settle();
  CHECK(world.objects.asked.size() == 2);

  CHECK(world.objects.events.empty());
}

TEST_CASE("The time of a transition changes with the status only", "[status]") {
  World world;
  world.settle();
  world.clock += 60;
  world.judge(true, "Ready", "another message");
  world.settle();
  CHECK(world.conditions().find("03:04:05Z") != std::string::npos);
  CHECK(world.conditions().find("another message") != std::string::npos);
  world.judge(false, "NoReadyPods");
  world.settle();
  CHECK(world.conditions().find("03:05:05Z") != std::string::npos);
  CHECK(world.objects.events == std::vector<std::string>{"NoReadyPods Warning"});
  world.clock += 60;
  world.judge(false, "ModelServerNotFound");
  world.settle();
  CHECK(world.conditions().find("03:05:05Z") != std::string::npos);
  world.judge(true, "Ready");
  world.settle();
  CHECK(world.conditions().find("03:06:05Z") != std::string::npos);
  CHECK(world.objects.events ==
        std::vector<std::string>{"NoReadyPods Warning", "ModelServerNotFound Warning", "Ready Normal"});
}

TEST_CASE("The same Event is not sent again for a while", "[status]") {
  World world;
  world.settle();
  for (int i = 0; i < 3; ++i) {
    world.judge(false, "NoReadyPods");
    world.settle();
    world.judge(true, "Ready");
    world.settle();
  }
  CHECK(world.objects.events == std::vector<std::string>{"NoReadyPods Warning", "Ready Normal"});
}

TEST_CASE("A changed object is looked at, and its generation is shown; what others wrote stays", "[status]") {
  World world;
  world.settle();
  auto& object = world.objects.objects["ns/modelroutes/r"];
  object.generation = 5;
  object.model = "n";
  object.conditions.insert(
      object.conditions.size() - 1,
      R"(,{"type":"Theirs","status":"Unknown","lastTransitionTime":"t","reason":"R","message":"m"})");
  world.verdicts[0].spec = spec("n");
  world.writer.wake();
  world.settle();
  CHECK(world.conditions().find(R"("observedGeneration":5)") != std::string::npos);
  CHECK(world.conditions().find("Theirs") != std::string::npos);
  CHECK(world.objects.count("GET") == 2);
}

TEST_CASE("A generation that is not judged yet is not claimed", "[status]") {
  World world;
  world.settle();
  auto& object = world.objects.objects["ns/modelroutes/r"];
  object.generation = 2;  // a change that the watch has not told, or that cannot be used
  object.model = "n";
  world.leads = false;
  world.writer.wake();
  world.settle();
  world.leads = true;  // and now somebody looks at the object
  world.judge(false, "NoReadyPods");
  world.settle();
  CHECK(world.conditions().find("NoReadyPods") != std::string::npos);
  CHECK(world.conditions().find(R"("observedGeneration":1)") != std::string::npos);
  world.verdicts[0].spec = spec("n");  // it is judged
  world.writer.wake();
  world.settle();
  CHECK(world.conditions().find(R"("observedGeneration":2)") != std::string::npos);
}

TEST_CASE("Who does not lead writes nothing; who begins to lead finds what is there", "[status]") {
  World world;
  world.leads = false;
  world.settle();
  CHECK(world.objects.asked.empty());
  world.objects.objects["ns/modelroutes/r"].conditions =
      R"([{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"old","reason":"Ready",)"
      R"("message":"requests are routed"}])";
  world.leads = true;
  world.writer.wake();
  world.settle();
  CHECK(world.objects.count("GET") == 1);
  CHECK(world.objects.count("PATCH") == 0);
}

TEST_CASE("A leader that begins reads lists, page by page, in place of each object", "[status]") {
  World world;
  world.objects.lists = true;
  for (const char* name : {"a", "b", "c"}) {
    world.objects.objects["ns/modelroutes/" + std::string(name)] = {};
    world.verdicts.push_back(World::verdict(name));
  }
  world.objects.objects["ns/modelroutes/a"].conditions =
      R"([{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"old","reason":"Ready",)"
      R"("message":"requests are routed"}])";
  world.settle();
  CHECK(world.objects.list_requests == 1 + 4);  // servers, routes
  CHECK(world.objects.count("GET") == 0);
  CHECK(world.objects.count("PATCH") == 3);  // a had it
}

TEST_CASE("CRDs that drop conditions get one write, then Events alone", "[status]") {
  World world;
  world.objects.drops_conditions = true;
  world.objects.objects["ns/modelroutes/s"] = {};
  world.verdicts.push_back(World::verdict("s"));
  world.settle();
  CHECK(world.objects.count("PATCH") == 1);
  world.judge(false, "NoReadyPods");
  world.settle();
  world.writer.wake();
  world.settle();
  CHECK(world.objects.count("PATCH") == 1);
  CHECK(world.objects.events == std::vector<std::string>{"NoReadyPods Warning"});
}

TEST_CASE("A refusal ends status, or Events, and nothing else", "[status]") {
  World world;
  SECTION("status") {
    world.objects.refuse_status = 403;
    world.judge(false, "NoReadyPods");
    world.settle();
    world.judge(true, "Ready");
    world.settle();
    world.judge(false, "NoPodSelected");
    world.settle();
    CHECK(world.objects.count("PATCH") == 1);
    CHECK(world.objects.events.back() == "NoPodSelected Warning");
  }
  SECTION("Events") {
    world.objects.refuse_events = 403;
    world.judge(false, "NoReadyPods");
    world.settle();
    world.judge(false, "NoPodSelected");
    world.settle();
    CHECK(world.objects.count("POST") == 1);
    CHECK(world.conditions().find("NoPodSelected") != std::string::npos);
  }
}

TEST_CASE("A failure is tried again; an object that is gone or refused does not hold up the others", "[status]") {
  World world;
  world.objects.refuse_status = 500;
  CHECK(world.wait([&] { return world.objects.count("PATCH") >= 3; }));
  world.objects.refuse_status = 422;
  world.settle();
  world.objects.refuse_status = 0;
  world.verdicts.insert(world.verdicts.begin(), World::verdict("gone"));
  world.writer.wake();
  world.settle();
  CHECK(world.conditions().find("requests are routed") != std::string::npos);
}

TEST_CASE("Objects that always fail do not starve those behind them", "[status]") {
  World world;
  const int broken = GENERATE(1, 4);
  for (int i = 0; i < broken; ++i) {
    const std::string name = "broken" + std::to_string(i);
    world.objects.objects["ns/modelroutes/" + name] = {};
    world.objects.broken.insert("ns/modelroutes/" + name);
    world.verdicts.insert(world.verdicts.begin(), World::verdict(name));
  }
  REQUIRE(world.wait([&] { return world.conditions().find("requests are routed") != std::string::npos; }));
  world.objects.broken.clear();
  const auto written = [&] {
    const auto& first = world.objects.objects["ns/modelroutes/broken0"];
    return first.conditions.find("requests are routed") != std::string::npos;
  };
  CHECK(world.wait(written));
}

TEST_CASE("News do not wait for an object that fails", "[status]") {
  World world;
  world.objects.objects["ns/modelroutes/broken"] = {};
  world.objects.broken.insert("ns/modelroutes/broken");
  world.verdicts.push_back(World::verdict("broken"));
  // By now the pause after a failure has doubled to more than a second.
  REQUIRE(world.wait([&] { return world.objects.count("PATCH") >= 9; }));
  world.judge(false, "NoReadyPods");
  CHECK(world.wait([&] { return world.conditions().find("NoReadyPods") != std::string::npos; }, 600ms));
}
