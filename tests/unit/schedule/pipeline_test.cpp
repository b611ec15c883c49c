#include "schedule/pipeline.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "schedule/build.hpp"
#include "support/fake_host.hpp"

namespace warmroute::test {
namespace {

using namespace warmroute::schedule;

constexpr auto top = std::numeric_limits<std::int64_t>::max();

struct Counting : RequestState {
  int scored = 0;
};

/// Scores by position, drops by position, counts finished attempts.
struct Probe : FilterPlugin, ScorePlugin, PostRequest {
  explicit Probe(std::vector<std::int64_t> given = {}, std::set<std::string> removed = {})
      : points(std::move(given)), dropped(std::move(removed)) {}
  [[nodiscard]] std::string_view name() const noexcept override { return "probe"; }
  [[nodiscard]] std::unique_ptr<RequestState> new_state() const override { return std::make_unique<Counting>(); }
  [[nodiscard]] std::size_t prompt_bytes_wanted() const noexcept override { return 77; }
  void filter(const RequestView&, RequestState*, std::span<const PodView> pods, std::span<bool> keep) const override {
    for (std::size_t i = 0; i < pods.size(); ++i)
      if (dropped.count(std::string(pods[i].name)) != 0) keep[i] = false;
  }
  bool score(const RequestView& request, RequestState* state, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override {
    ++static_cast<Counting&>(*state).scored;
    version_seen = request.pods_version;
    for (std::size_t i = 0; i < pods.size() && i < points.size(); ++i) scores[i] = points[i];
    return !points.empty();
  }
  void attempt_done(const RequestView&, RequestState* state, PodId pod, const Outcome&) noexcept override {
    finished.emplace_back(pod, static_cast<Counting&>(*state).scored);
  }
  mutable std::uint64_t version_seen = 0;
  std::vector<std::int64_t> points;
  std::set<std::string> dropped;
  std::vector<std::pair<PodId, int>> finished;
};

struct Pods {
  explicit Pods(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) names.push_back("ns/p" + std::to_string(i));
    for (std::size_t i = 0; i < count; ++i) {
      PodView view;
      view.id = {static_cast<std::uint32_t>(i), 1};
      view.name = names[i];
      views.push_back(view);
    }
  }
  std::vector<std::string> names;
  std::vector<PodView> views;
};

std::shared_ptr<Probe> probe(std::vector<std::int64_t> points, std::set<std::string> dropped = {}) {
  return std::make_shared<Probe>(std::move(points), std::move(dropped));
}

Decision run_once(const Pipeline& pipeline, const Pods& pods) {
  auto states = pipeline.new_states();
  return pipeline.run(RequestView{}, states, pods.views);
}

TEST_CASE("totals are weighted sums, best first, at most five") {
  const Pods pods(7);
  const Pipeline pipeline({}, {{probe({1, 2, 3, 4, 5, 6, 7}), 10}, {probe({9, 0, 0, 0, 0, 0, 0}), 7}}, nullptr);
  const Decision decision = run_once(pipeline, pods);
  REQUIRE(decision.count == 5);
  const std::vector<std::pair<std::uint32_t, std::int64_t>> want{{0, 73}, {6, 70}, {5, 60}, {4, 50}, {3, 40}};
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(decision.candidates[i].index == want[i].first);
    CHECK(decision.candidates[i].total == want[i].second);
  }
}

TEST_CASE("indexes refer to the pods given, after filters too") {
  const Pods pods(4);
  const Pipeline pipeline({probe({}, {"ns/p0"}), probe({}, {"ns/p2"})}, {{probe({5, 8}), 1}}, nullptr);
  const Decision decision = run_once(pipeline, pods);
  REQUIRE(decision.count == 2);
  CHECK(decision.candidates[0].index == 3);
  CHECK(decision.candidates[1].index == 1);
}

TEST_CASE("the filter that removed the last pod is named") {
  const Pods pods(2);
  const Pipeline pipeline({probe({}, {"ns/p0"}), probe({}, {"ns/p1"})}, {{probe({5, 8}), 1}}, nullptr);
  const Decision decision = run_once(pipeline, pods);
  CHECK(decision.count == 0);
  CHECK(decision.filtered_by == "probe");
  CHECK(run_once(pipeline, Pods(0)).filtered_by.empty());
}

TEST_CASE("weighted sums stop at the limits of int64") {
  const Pods pods(2);
  const auto low = std::numeric_limits<std::int64_t>::min();
  const Pipeline pipeline({}, {{probe({top, low}), top}, {probe({top, low}), 1}}, nullptr);
  const Decision decision = run_once(pipeline, pods);
  CHECK(decision.candidates[0].index == 0);
  CHECK(decision.candidates[0].total == top);
  CHECK(decision.candidates[1].total == low);
}

TEST_CASE("equal totals are ordered at random, each place about equally often") {
  const Pods pods(4);
  const Pipeline scored({}, {{probe({7, 7, 7, 7}), 1}}, nullptr);
  const Pipeline unscored({}, {}, nullptr);
  const Pipeline silent({}, {{probe({}), 1}}, nullptr);
  for (const Pipeline* pipeline : {&scored, &unscored, &silent}) {
    std::map<std::uint32_t, int> first, last;
    for (int i = 0; i < 4000; ++i) {
      const Decision decision = run_once(*pipeline, pods);
      REQUIRE(decision.count == 4);
      ++first[decision.candidates[0].index];
      ++last[decision.candidates[3].index];
    }
    for (std::uint32_t pod = 0; pod < 4; ++pod) {  // 1000 expected; 8 standard deviations
      CHECK(std::abs(first[pod] - 1000) < 220);
      CHECK(std::abs(last[pod] - 1000) < 220);
    }
  }
}

TEST_CASE("a draw decides who of many equals makes the list") {
  const Pods pods(10);
  const Pipeline pipeline({}, {{probe({50, 9, 9, 9, 9, 9, 9, 9, 9, 9}), 1}}, nullptr);
  std::map<std::uint32_t, int> listed;
  for (int i = 0; i < 4500; ++i) {
    const Decision decision = run_once(pipeline, pods);
    CHECK(decision.candidates[0].index == 0);
    for (std::size_t place = 1; place < decision.count; ++place) ++listed[decision.candidates[place].index];
  }
  for (std::uint32_t pod = 1; pod < 10; ++pod) CHECK(std::abs(listed[pod] - 2000) < 280);
}

TEST_CASE("a plugin in several roles has one state and one hook") {
  const Pods pods(2);
  const auto plugin = probe({1, 2});
  const Pipeline pipeline({plugin}, {{plugin, 1}}, nullptr);
  auto states = pipeline.new_states();
  CHECK(states.size() == 1);
  CHECK(pipeline.prompt_bytes_wanted() == 77);
  (void)pipeline.run(RequestView{}, states, pods.views);
  pipeline.attempt_done(RequestView{}, states, pods.views[1].id, Outcome{});
  REQUIRE(plugin->finished.size() == 1);
  CHECK(plugin->finished[0] == std::pair(pods.views[1].id, 1));
}

TEST_CASE("each plugin's time is reported with its role") {
  struct Times : Timing {
    void plugin_took(std::string_view model, std::string_view plugin, Role role, double seconds) noexcept override {
      CHECK(seconds >= 0);
      seen.emplace_back(std::string(model) + "/" + std::string(plugin), role);
    }
    std::vector<std::pair<std::string, Role>> seen;
  } times;
  const Pods pods(1);
  const Pipeline pipeline({probe({})}, {{probe({1}), 1}}, &times);
  auto states = pipeline.new_states();
  RequestView request;
  request.model = "m";
  (void)pipeline.run(request, states, pods.views);
  const std::vector<std::pair<std::string, Timing::Role>> want{{"m/probe", Timing::Role::filter},
                                                               {"m/probe", Timing::Role::score}};
  CHECK(times.seen == want);
}

TEST_CASE("at --v=4 each plugin's results are one record") {
  const std::string path = "/tmp/warmroute-pipeline-log-" + std::to_string(::getpid());
  log::Options options;
  options.verbosity = 4;
  options.file = path;
  options.to_stderr = false;
  log::start(options);
  const Pods pods(3);
  (void)run_once(Pipeline({probe({}, {"ns/p1"})}, {{probe({100, 7}), 2}, {probe({}), 1}}, nullptr), pods);
  log::stop();
  log::start({});  // back to verbosity 0
  log::stop();
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  std::remove(path.c_str());
  CHECK(text.find("] FilterPlugin: probe\nPod: ns/p0, kept\nPod: ns/p1, filtered out\nPod: ns/p2, kept\nI") !=
        std::string::npos);
  CHECK(text.find("] ScorePlugin: probe\nPod: ns/p0, Score: 100\nPod: ns/p2, Score: 7\nI") != std::string::npos);
  // A plugin that has nothing to say lists no pods.
  CHECK(text.substr(text.size() - 21) == "] ScorePlugin: probe\n");
}

TEST_CASE("the version of the pods reaches scorers only when no filter removed one") {
  const Pods pods(3);
  const auto scorer = probe({1});
  const Pipeline whole({probe({})}, {{scorer, 1}}, nullptr);
  auto states = whole.new_states();
  (void)whole.run(RequestView{}, states, pods.views, {}, 42);
  CHECK(scorer->version_seen == 42);
  const Pipeline filtered({probe({}, {"ns/p1"})}, {{scorer, 1}}, nullptr);
  states = filtered.new_states();
  (void)filtered.run(RequestView{}, states, pods.views, {}, 42);
  CHECK(scorer->version_seen == 0);
}

struct Follower : Probe {
  using Probe::Probe;
  [[nodiscard]] bool follows_attempts() const noexcept override { return true; }
  void attempt_started(const RequestView&, RequestState*, PodId pod) noexcept override { started.push_back(pod); }
  void first_byte(const RequestView&, RequestState*, PodId pod) noexcept override { answered.push_back(pod); }
  [[nodiscard]] Value explain(const RequestView&, std::span<const PodView> pods) const override {
    return Value{static_cast<std::int64_t>(pods.size())};
  }
  std::vector<PodId> started, answered;
};

TEST_CASE("only plugins that follow attempts hear of their start and first byte") {
  const auto follower = std::make_shared<Follower>(std::vector<std::int64_t>{1});
  const auto other = probe({1});
  const Pipeline pipeline({}, {{follower, 1}, {other, 1}}, nullptr);
  auto states = pipeline.new_states();
  pipeline.attempt_started(RequestView{}, states, PodId{1, 1});
  pipeline.first_byte(RequestView{}, states, PodId{2, 1});
  pipeline.attempt_done(RequestView{}, states, PodId{3, 1}, Outcome{});
  CHECK(follower->started == std::vector<PodId>{{1, 1}});
  CHECK(follower->answered == std::vector<PodId>{{2, 1}});
  CHECK(follower->finished.size() == 1);
  CHECK(other->finished.size() == 1);
}

TEST_CASE("explanations come from the score plugins that have one") {
  const Pipeline pipeline({}, {{probe({1}), 1}, {std::make_shared<Follower>(), 1}}, nullptr);
  const auto said = pipeline.explain(RequestView{}, Pods(3).views);
  REQUIRE(said.size() == 1);
  CHECK(said[0].first == "probe");
  CHECK(std::get<std::int64_t>(said[0].second.data) == 3);
}

}  // namespace
}  // namespace warmroute::test
