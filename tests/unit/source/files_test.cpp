#include "source/files.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "unit/source/temp_folder.hpp"

namespace config = warmroute::config;
namespace model = warmroute::model;
namespace source = warmroute::source;
namespace fs = std::filesystem;
using namespace std::chrono_literals;
using warmroute::test::TempFolder;

namespace {

std::string pod(const std::string& name, const std::string& ip = "10.0.0.1") {
  return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nstatus: {podIP: " + ip + "}\n";
}
std::string box(const std::string& endpoints) {
  return "apiVersion: warmroute.dev/v1alpha1\nkind: StaticPods\nmetadata: {name: box}\nspec: {labels: {app: x}, "
         "endpoints: " +
         endpoints + "}\n";
}

/// A control loop with a follower whose hooks are written down.
struct Fixture {
  explicit Fixture(const fs::path& path, source::FilesTiming timing = {5ms, 5ms, 20ms, 1000ms})
      : files(std::in_place, io, path.string(), hooks(), timing) {
    files->start();
  }
  source::FilesHooks hooks() {
    return {[this](model::ResourceSet set) { states.push_back(std::move(set)); },
            [this](const config::Diagnostics& found) { problems.push_back(found); }};
  }
  /// Runs the loop until `done`, at most ten seconds.
  bool run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!done() && std::chrono::steady_clock::now() < end) io.run_one_for(50ms);
    return done();
  }
  void run_for(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) io.run_one_until(end);
  }
  [[nodiscard]] std::vector<std::string> pod_names() const {
    std::vector<std::string> names;
    for (const auto& each : states.back().pods) names.push_back(each.meta.name);
    return names;
  }

  warmroute::net::io_context io;
  boost::asio::executor_work_guard<warmroute::net::Executor> guard{io.get_executor()};
  std::vector<model::ResourceSet> states;
  std::vector<config::Diagnostics> problems;
  std::optional<source::Files> files;
};

using Strings = std::vector<std::string>;

}  // namespace

TEST_CASE("a file is read at start and followed by content", "[files][follow]") {
  const TempFolder folder;
  folder.write("r.yaml", pod("a"));
  Fixture f(folder.path() / "r.yaml");
  REQUIRE(f.run_until([&] { return f.states.size() == 1; }));
  CHECK(f.pod_names() == Strings{"a"});

  folder.replace("r.yaml", pod("b"));
  REQUIRE(f.run_until([&] { return f.states.size() == 2; }));
  CHECK(f.pod_names() == Strings{"b"});

  // Another inode, another comment: nothing changed for anybody.
  folder.replace("r.yaml", pod("b"));
  f.run_for(50ms);
  folder.replace("r.yaml", "# comment\n" + pod("b"));
  f.run_for(100ms);
  CHECK(f.states.size() == 2);
  CHECK(f.problems.empty());
}

TEST_CASE("a file with errors leaves the last good state and is reported once", "[files][follow]") {
  const TempFolder folder;
  folder.write("r.yaml", pod("a"));
  Fixture f(folder.path() / "r.yaml");
  REQUIRE(f.run_until([&] { return f.states.size() == 1; }));

  folder.replace("r.yaml", "kind: [\n");
  REQUIRE(f.run_until([&] { return !f.problems.empty(); }));
  f.run_for(100ms);
  CHECK(f.problems.size() == 1);
  CHECK(config::has_errors(f.problems[0]));
  CHECK(f.states.size() == 1);

  fs::remove(folder.path() / "r.yaml");
  REQUIRE(f.run_until([&] { return f.problems.size() == 2; }));
  CHECK(config::has_errors(f.problems[1]));

  folder.write("r.yaml", pod("c"));
  REQUIRE(f.run_until([&] { return f.states.size() == 2; }));
  CHECK(f.pod_names() == Strings{"c"});
  REQUIRE(f.problems.size() == 3);
  CHECK(f.problems[2].empty());
}

TEST_CASE("a path that is missing at start is reported and picked up later", "[files][follow]") {
  const TempFolder folder;
  Fixture f(folder.path() / "later.yaml");
  REQUIRE(f.run_until([&] { return f.problems.size() == 1; }));
  CHECK(config::has_errors(f.problems[0]));
  CHECK(f.states.empty());
  folder.write("later.yaml", pod("a"));
  REQUIRE(f.run_until([&] { return f.states.size() == 1; }));
  CHECK(f.pod_names() == Strings{"a"});
}

TEST_CASE("an empty file is a state too: the sync", "[files][follow]") {
  const TempFolder folder;
  folder.write("r.yaml", "");
  Fixture f(folder.path());
  REQUIRE(f.run_until([&] { return f.states.size() == 1; }));
  CHECK(f.states[0].pods.empty());
}

TEST_CASE("the symlink swap of a mounted ConfigMap", "[files][follow]") {
  const TempFolder folder;
  fs::create_directory(folder.path() / "..1");
  folder.write("..1/r.yaml", pod("one"));
  fs::create_directory_symlink("..1", folder.path() / "..data");
  fs::create_symlink("..data/r.yaml", folder.path() / "r.yaml");
  Fixture f(folder.path());
  REQUIRE(f.run_until([&] { return f.states.size() == 1; }));

  fs::create_directory(folder.path() / "..2");
  folder.write("..2/r.yaml", pod("two"));
  fs::create_directory_symlink("..2", folder.path() / "..data_tmp");
  fs::rename(folder.path() / "..data_tmp", folder.path() / "..data");
  REQUIRE(f.run_until([&] { return f.states.size() == 2; }));
  CHECK(f.pod_names() == Strings{"two"});
}

TEST_CASE("host names are resolved; one that does not resolve is a pod that is not ready", "[files][follow]") {
  const TempFolder folder;
  folder.write("r.yaml", box("['localhost:8000', 'no-such-host.invalid:8001', '10.0.0.1:8002']"));
  Fixture f(folder.path());
  REQUIRE(f.run_until([&] {
    if (f.states.empty()) return false;
    return f.states.back().pods.front().ready;
  }));
  int local = 0;
  for (const auto& each : f.states.back().pods) {
    if (each.port == 8000) {
      ++local;
      CHECK(each.ready);
      CHECK((each.ip == "127.0.0.1" || each.ip == "::1"));
      CHECK_THAT(each.meta.name, Catch::StartsWith("box-localhost-8000"));
    } else if (each.port == 8001) {
      CHECK_FALSE(each.ready);
      CHECK(each.meta.name == "box-no-such-host.invalid-8001");
    } else {
      CHECK(each.meta.name == "box-10.0.0.1-8002");
      CHECK(each.ready);
    }
  }
  CHECK(local >= 1);
  const std::size_t states = f.states.size();
  f.run_for(150ms);  // several rounds of look-ups that find the same
  CHECK(f.states.size() == states);
  CHECK(f.problems.empty());
}

TEST_CASE("a name that takes its time does not hold the rest back", "[files][follow]") {
  const TempFolder folder;
  folder.write("r.yaml", box("['10.0.0.1:8000', 'no-such-host.invalid:8001']"));
  Fixture f(folder.path(), {5ms, 5ms, 1000ms, 0ms});
  REQUIRE(f.run_until([&] { return f.states.size() == 1; }));
  CHECK(f.states[0].pods.size() == 2);
}

TEST_CASE("no hook runs after the end, whatever is under way", "[files][follow]") {
  const TempFolder folder;
  folder.write("r.yaml", box("['localhost:8000', 'no-such-host.invalid:8001']"));
  Fixture f(folder.path(), {1ms, 1ms, 1ms, 0ms});
  REQUIRE(f.run_until([&] { return !f.states.empty(); }));
  // Timers are armed, look-ups run, and the reader is about to post this:
  folder.replace("r.yaml", pod("a"));
  f.files.reset();
  const std::size_t states = f.states.size();
  f.run_for(50ms);
  CHECK(f.states.size() == states);
  CHECK(f.problems.empty());
}
