// The options of prefix-cache beyond the four of the Go router: recordOn, learnFromUsage, auto, snapshot, explain.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "prefix_cache/settings.hpp"
#include "prefix_cache/snapshot_file.hpp"
#include "support/prefix_fleet.hpp"

namespace warmroute::test {
namespace {

using plugins::PrefixCacheSettings;
using plugins::RecordOn;

Outcome failed() {
  Outcome outcome;
  outcome.end = Outcome::End::failed_before_first_byte;
  return outcome;
}

/// A folder of the test's own.
struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("wr-prefix-" + std::to_string(::getpid()))) {
    std::filesystem::create_directory(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  [[nodiscard]] std::string file(const std::string& name) const { return (path / name).string(); }
  std::filesystem::path path;
};

TEST_CASE("prefix-cache: a bad value of a new option falls back alone, with a warning that names both") {
  const std::pair<const char*, const char*> cases[] = {
      {"recordOn: never", "argument recordOn must be response, first-byte or dispatch, got \"never\"; using response"},
      {"recordOn: 3", "argument recordOn must be response, first-byte or dispatch, got 3; using response"},
      {"learnFromUsage: 'yes'", "argument learnFromUsage must be true or false, got \"yes\"; using false"},
      {"includeTools: 7", "argument includeTools must be true or false, got 7; using true"},
      {"prefixCacheSnapshot: 5", "argument prefixCacheSnapshot must be a path of a file, got 5; using no snapshot"},
      {"prefixCacheSnapshot: ''", "argument prefixCacheSnapshot must be a path of a file, got \"\""},
      {"prefixCacheSnapshot: /tmp/", "argument prefixCacheSnapshot must be a path of a file, got \"/tmp/\""},
      {"prefixCacheSnapshotSeconds: 0", "argument prefixCacheSnapshotSeconds must be a number of seconds from 1 to"},
      {"prefixCacheSnapshotSeconds: soon", "got \"soon\"; using 120"}};
  for (const auto& [bad, warning] : cases) {
    INFO(bad);
    FakeHost host;
    const auto settings = plugins::read_prefix_cache_settings(
        to_args("{blockSizeToHash: 32, topKMatches: 2, " + std::string(bad) + "}"), host);
    CHECK(host.warnings.size() == 1);
    CHECK(FakeHost::contains(host.warnings, warning));
    CHECK(host.errors.empty());
    CHECK(settings.block_bytes == 32);
    CHECK(settings.top_k == 2);
    CHECK(settings.record_on == RecordOn::response);
    CHECK(settings.snapshot.empty());
    CHECK(settings.snapshot_period.count() == 120);
    CHECK_FALSE(settings.learn_from_usage);
    CHECK(settings.include_tools);
  }
}

TEST_CASE("prefix-cache: good values of the options, beside old arguments that fell back") {
  FakeHost host;
  const auto settings = plugins::read_prefix_cache_settings(
      to_args("{blockSizeToHash: '32', recordOn: first-byte, learnFromUsage: true, prefixCacheSnapshot: /x/y, "
              "prefixCacheSnapshotSeconds: 7}"),
      host);
  CHECK(host.errors.size() == 2);
  CHECK(host.warnings.empty());
  CHECK(settings.block_bytes == 64);
  CHECK(settings.record_on == RecordOn::first_byte);
  CHECK(settings.learn_from_usage);
  CHECK(settings.snapshot == "/x/y");
  CHECK(settings.snapshot_period.count() == 7);
  CHECK(plugins::read_prefix_cache_settings(to_args("recordOn: dispatch"), host).record_on == RecordOn::dispatch);
}

TEST_CASE("prefix-cache: auto is the only string that maxHashCacheSize may be") {
  FakeHost host;
  const auto automatic = plugins::read_prefix_cache_settings(to_args("{maxHashCacheSize: auto, topKMatches: 3}"), host);
  CHECK(automatic.auto_capacity);
  CHECK(automatic.capacity == 50000);
  CHECK(automatic.top_k == 3);
  CHECK(host.errors.empty());
  for (const auto* bad : {"{maxHashCacheSize: Auto, topKMatches: 3}", "{maxHashCacheSize: '100', topKMatches: 3}",
                          "{maxHashCacheSize: auto, topKMatches: auto}"}) {
    INFO(bad);
    host.errors.clear();
    const auto settings = plugins::read_prefix_cache_settings(to_args(bad), host);
    CHECK(FakeHost::contains(host.errors, "Failed to unmarshal PrefixCacheArgs, using default values"));
    CHECK_FALSE(settings.auto_capacity);
    CHECK(settings.top_k == 5);
  }
}

TEST_CASE("prefix-cache: recordOn response follows no attempts") {
  Fleet fleet(1);
  CHECK_FALSE(fleet.hook().follows_attempts());
  CHECK(Fleet(1, "recordOn: dispatch").hook().follows_attempts());
}

TEST_CASE("prefix-cache: with recordOn dispatch a burst finds the pod that the first request went to") {
  Fleet fleet(3, "recordOn: dispatch");
  const std::string prompt = text(1000);
  (void)fleet.scores(ask(prompt));
  const auto first = std::move(fleet.state);
  fleet.hook().attempt_started(ask(prompt), first.get(), fleet.pods[1].id);
  fleet.hook().first_byte(ask(prompt), first.get(), fleet.pods[1].id);
  CHECK(fleet.scores(ask(prompt)) == Scores{0, 100, 0});
  CHECK(fleet.entries() == 16);
  fleet.hook().attempt_done(ask(prompt), first.get(), fleet.pods[1].id, Fleet::ok());
  CHECK(fleet.scores(ask(prompt)) == Scores{0, 100, 0});
  CHECK(fleet.entries() == 16);
}

TEST_CASE("prefix-cache: with recordOn first-byte the credit begins with the answer") {
  Fleet fleet(2, "recordOn: first-byte");
  const std::string prompt = text(1000);
  (void)fleet.scores(ask(prompt));
  const auto first = std::move(fleet.state);
  fleet.hook().attempt_started(ask(prompt), first.get(), fleet.pods[1].id);
  CHECK(fleet.scores(ask(prompt)) == Scores{0, 0});
  fleet.hook().first_byte(ask(prompt), first.get(), fleet.pods[1].id);
  CHECK(fleet.scores(ask(prompt)) == Scores{0, 100});
  Outcome cut = Fleet::ok();
  cut.end = Outcome::End::cut;
  fleet.hook().attempt_done(ask(prompt), first.get(), fleet.pods[1].id, cut);
  CHECK(fleet.entries() == 0);
}

TEST_CASE("prefix-cache: a failed attempt takes back its own credit and nothing else") {
  Fleet fleet(2, "recordOn: dispatch");
  const std::string prompt = text(1000), shared = prompt.substr(0, 640);
  const PodId pod = fleet.pods[0].id, next = fleet.pods[1].id;
  fleet.serve(ask(shared), pod);  // 10 blocks for good
  (void)fleet.scores(ask(prompt));
  const auto failing = std::move(fleet.state);
  fleet.hook().attempt_started(ask(prompt), failing.get(), pod);
  (void)fleet.scores(ask(prompt));
  const auto other = std::move(fleet.state);
  fleet.hook().attempt_started(ask(prompt), other.get(), pod);
  CHECK(fleet.entries() == 16);
  fleet.hook().attempt_done(ask(prompt), failing.get(), pod, failed());
  CHECK(fleet.entries() == 16);  // the other request is still under way there
  fleet.hook().attempt_started(ask(prompt), failing.get(), next);
  fleet.hook().attempt_done(ask(prompt), failing.get(), next, Fleet::ok());
  CHECK(fleet.entries() == 32);
  fleet.hook().attempt_done(ask(prompt), other.get(), pod, failed());
  CHECK(fleet.entries() == 26);
  CHECK(fleet.scores(ask(prompt)) == Scores{62, 100});
}

TEST_CASE("prefix-cache: predicted and actual share are observed together, when the engine reports cached tokens") {
  Fleet fleet(1);
  const std::string prompt = text(640);
  fleet.serve(ask(prompt), fleet.pods[0].id);  // no usage
  fleet.serve(ask(prompt), fleet.pods[0].id, Fleet::used(160, -1));
  CHECK(fleet.host.series("warmroute_prefix_cache_predicted_share")->seen.empty());
  fleet.serve(ask(prompt), fleet.pods[0].id, Fleet::used(160, 120));
  fleet.serve(ask(text(640, 'z')), fleet.pods[0].id, Fleet::used(160, 0));
  CHECK(fleet.host.series("warmroute_prefix_cache_predicted_share")->seen["m"] == std::vector<double>{1, 0});
  CHECK(fleet.host.series("warmroute_prefix_cache_actual_share")->seen["m"] == std::vector<double>{0.75, 0});
  CHECK(fleet.host.series("warmroute_prefix_cache_requests_total")->sums["m"] == 4);
  CHECK(fleet.host.series("warmroute_prefix_cache_hits_total")->sums["m"] == 2);
  CHECK(fleet.host.series("warmroute_prefix_cache_matched_bytes_total")->sums["m"] == 1280);
}

TEST_CASE("prefix-cache: the predicted share is one of the whole prompt, not of the coverage") {
  Fleet fleet(1, "maxBlocksToMatch: 5");
  const std::string prompt = text(640);
  RequestView request = ask(std::string_view(prompt).substr(0, 320));
  request.token_estimate = 160;
  fleet.serve(request, fleet.pods[0].id, Fleet::used(160, 0));
  fleet.serve(request, fleet.pods[0].id, Fleet::used(160, 80));
  CHECK(fleet.host.series("warmroute_prefix_cache_predicted_share")->seen["m"] == std::vector<double>{0, 0.5});
}

TEST_CASE("prefix-cache: a match beyond topKMatches is a hit all the same") {
  Fleet fleet(3, "topKMatches: 1");
  const std::string prompt = text(640);
  fleet.serve(ask(prompt), fleet.pods[0].id);
  fleet.serve(ask(prompt.substr(0, 320)), fleet.pods[1].id);
  CHECK(fleet.host.series("warmroute_prefix_cache_hits_total")->sums["m"] == 0);
  fleet.serve(ask(prompt), fleet.pods[1].id);
  CHECK(fleet.host.series("warmroute_prefix_cache_matched_bytes_total")->sums["m"] == 320);
}

TEST_CASE("prefix-cache: learnFromUsage drops what a pod repeatedly reports no hit for, and what is older") {
  Fleet fleet(1, "learnFromUsage: true");
  const PodId pod = fleet.pods[0].id;
  const std::string old = text(640, 'o'), doubted = text(640, 'd'), fresh = text(640, 'f');
  fleet.serve(ask(old), pod, Fleet::used(160, 0));
  fleet.serve(ask(doubted), pod, Fleet::used(160, 0));  // nothing was believed: no strike
  fleet.serve(ask(doubted), pod, Fleet::used(160, 0));
  fleet.serve(ask(doubted), pod, Fleet::used(160, 100));  // a hit: from the start
  fleet.serve(ask(doubted), pod, Fleet::used(160, 0));
  fleet.serve(ask(doubted), pod, Fleet::used(160, 0));
  fleet.serve(ask(fresh), pod, Fleet::used(160, -1));
  CHECK(fleet.entries() == 30);
  fleet.serve(ask(doubted), pod, Fleet::used(160, 0));  // the third in a row
  CHECK(fleet.entries() == 10);
  CHECK(fleet.scores(ask(doubted)) == Scores{0});
  CHECK(fleet.scores(ask(old)) == Scores{0});
  CHECK(fleet.scores(ask(fresh)) == Scores{100});
  CHECK(fleet.host.series("warmroute_prefix_cache_disbelieved_total")->sums["m"] == 20);
  CHECK(fleet.evictions("m") == 0);
  // Not believed until it reports a hit again.
  fleet.serve(ask(doubted), pod, Fleet::used(160, 0));
  CHECK(fleet.scores(ask(doubted)) == Scores{0});
  fleet.serve(ask(doubted), pod, Fleet::used(160, 64));
  CHECK(fleet.scores(ask(doubted)) == Scores{100});
}

TEST_CASE("prefix-cache: without learnFromUsage reports change nothing, nor do engines that report nothing") {
  for (const auto* args : {"", "learnFromUsage: true"}) {
    Fleet fleet(1, args);
    const std::string prompt = text(640);
    for (int i = 0; i < 10; ++i)
      fleet.serve(ask(prompt), fleet.pods[0].id, Fleet::used(160, std::string_view(args).empty() ? 0 : -1));
    CHECK(fleet.scores(ask(prompt)) == Scores{100});
  }
}

TEST_CASE("prefix-cache: what is dropped goes in steps with the pod's next answers") {
  Fleet fleet(1, "{learnFromUsage: true, maxBlocksToMatch: 100000}");
  const PodId pod = fleet.pods[0].id;
  const std::string large = text(3000 * 64, 'L'), doubted = text(640, 'd');
  fleet.serve(ask(large), pod);
  fleet.serve(ask(doubted), pod, Fleet::used(160, 0));
  for (int i = 0; i < 3; ++i) fleet.serve(ask(doubted), pod, Fleet::used(160, 0));
  CHECK(fleet.entries() == 3010 - 1024);
  fleet.serve(ask("x"), pod, Fleet::used(1, -1));
  CHECK(fleet.entries() == 3010 - 2048);
  for (int i = 0; i < 3; ++i) fleet.serve(ask("x"), pod, Fleet::used(1, -1));
  CHECK(fleet.entries() == 0);
}

TEST_CASE("prefix-cache: auto sizes each pod by its engine's cache and the model's bytes per token") {
  Fleet fleet(2, "maxHashCacheSize: auto");
  fleet.host.tell(fleet.pods[0].id, {"", 1600});  // 1600 tokens of 4 bytes: 100 blocks
  const auto serve = [&](std::size_t pod, int number) {
    std::string prompt = text(640);
    prompt.replace(0, 8, std::to_string(10000000 + number));
    fleet.serve(ask(prompt), fleet.pods[pod].id, Fleet::used(160, 0));
  };
  for (int i = 0; i < 60; ++i) serve(0, i);
  CHECK(fleet.entries() == 100);
  for (int i = 0; i < 60; ++i) serve(1, i);  // whose engine says nothing
  CHECK(fleet.entries() == 700);
  fleet.host.tell(fleet.pods[0].id, {"", 3200});
  for (int i = 100; i < 160; ++i) serve(0, i);
  CHECK(fleet.entries() == 800);
}

TEST_CASE("prefix-cache: a snapshot carries pods of the same incarnation over, with the hash seed") {
  const Folder folder;
  const std::string args = "{prefixCacheSnapshot: '" + folder.file("index") + "'}";
  const std::string prompt = text(640), other = text(640, 'q');
  {
    Fleet fleet(3, args);
    fleet.host.tell(fleet.pods[0].id, {"ns/a|1", 0});
    fleet.host.tell(fleet.pods[1].id, {"ns/b|1", 0});
    fleet.host.tell(fleet.pods[2].id, {"", 0});
    CHECK(fleet.host.gauges.at("warmroute_prefix_cache_snapshot_age_seconds")() == 0);
    for (const auto& pod : fleet.pods) fleet.serve(ask(prompt, "m1"), pod.id);
    fleet.serve(ask(other, "m2"), fleet.pods[0].id);
    fleet.host.run_jobs();
  }
  struct stat info {};
  REQUIRE(::stat(folder.file("index").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK_FALSE(std::filesystem::exists(folder.file("index.tmp")));

  Fleet again(3, args);
  again.host.tell(again.pods[0].id, {"ns/a|1", 0});
  again.host.tell(again.pods[1].id, {"ns/b|2", 0});  // restarted
  CHECK(again.scores(ask(other, "m2")) == Scores{100, 0, 0});
  CHECK(again.scores(ask(prompt, "m1")) == Scores{100, 0, 0});
  CHECK(again.scores(ask(prompt, "m2")) == Scores{0, 0, 0});
  CHECK(again.entries() == 20);
  CHECK(FakeHost::contains(again.host.infos, "restored 20 entries of ns/a|1"));
  again.host.leave(again.pods[0].id);
  again.pods[0].id.generation = 2;
  again.host.join(again.pods[0].id);
  again.host.tell(again.pods[0].id, {"ns/a|1", 0});  // a part is given once
  CHECK(again.entries() == 0);
}

TEST_CASE("prefix-cache: a snapshot's seed replaces the process's own") {
  const Folder folder;
  const std::string args = "{prefixCacheSnapshot: '" + folder.file("index") + "'}";
  const std::string prompt = text(640);
  FakeHost first;
  first.seed = 111;
  const PodId pod{0, 1};
  std::vector<PodView> pods(1);
  pods[0].id = pod;
  {
    const auto plugin = make_plugin(make_prefix_cache, first, args);
    first.join(pod);
    first.tell(pod, {"ns/a|1", 0});
    const auto state = plugin->new_state();
    (void)scores_of(*plugin, pods, ask(prompt), state.get());
    dynamic_cast<PostRequest&>(*plugin).attempt_done(ask(prompt), state.get(), pod, Fleet::ok());
    first.run_jobs();
  }
  FakeHost second;
  second.seed = 222;
  const auto plugin = make_plugin(make_prefix_cache, second, args);
  second.join(pod);
  second.tell(pod, {"ns/a|1", 0});
  const auto state = plugin->new_state();
  CHECK(scores_of(*plugin, pods, ask(prompt), state.get()) == Scores{100});
}

TEST_CASE("prefix-cache: a damaged, foreign or missing snapshot is ignored with a clear line") {
  const Folder folder;
  const std::string path = folder.file("index");
  const std::string args = "{prefixCacheSnapshot: '" + path + "'}";
  const auto warning = [&args] {
    Fleet fleet(1, args);
    CHECK(fleet.entries() == 0);
    CHECK(fleet.host.errors.empty());
    return fleet.host.warnings.empty() ? std::string() : fleet.host.warnings.back();
  };
  CHECK(warning().empty());
  {
    Fleet fleet(1, args);
    fleet.host.tell(fleet.pods[0].id, {"ns/a|1", 0});
    fleet.serve(ask(text(640)), fleet.pods[0].id);
    fleet.host.run_jobs();
    fleet.host.run_jobs();
    CHECK(fleet.host.warnings.empty());
  }
  CHECK(warning().empty());
  const std::string good = plugins::read_whole_file(path).value().bytes;
  const auto put = [&path](const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; };
  const std::string ignored = "prefix-cache: snapshot " + path + " is ignored: ";
  std::string bad = good;
  bad[good.size() / 2] ^= 1;
  put(bad);
  CHECK(warning() == ignored + "damaged or cut off: the checksum is wrong");
  put(good.substr(0, good.size() - 5));
  CHECK(warning() == ignored + "damaged or cut off: the checksum is wrong");
  put("#!/bin/sh\n");
  CHECK(warning() == ignored + "not a snapshot of the prefix index");
  put("");
  CHECK(warning() == ignored + "not a snapshot of the prefix index");
  bad = good;
  bad[8] = 9;
  put(bad);
  CHECK(warning() == ignored + "version 9, not 1");
  put(good);
  Fleet smaller(1, "{blockSizeToHash: 32, prefixCacheSnapshot: '" + path + "'}");
  CHECK(smaller.host.warnings.back() == ignored + "it was made with another blockSizeToHash or includeTools");
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  CHECK(warning() == ignored + path + " is not a regular file");
}

TEST_CASE("prefix-cache: a snapshot that cannot be written is reported once, until it can") {
  const Folder folder;
  Fleet fleet(1, "{prefixCacheSnapshot: '" + folder.file("missing/index") + "'}");
  fleet.host.run_jobs();
  fleet.host.run_jobs();
  CHECK(fleet.host.warnings.size() == 1);
  CHECK(FakeHost::contains(fleet.host.warnings, "no snapshot is written: cannot create"));
  std::filesystem::create_directory(folder.path / "missing");
  fleet.host.run_jobs();
  CHECK(FakeHost::contains(fleet.host.infos, "snapshots are written again"));
  CHECK(fleet.host.gauges.at("warmroute_prefix_cache_snapshot_age_seconds")() < 5);
}

const Value& member(const Value& of, std::string_view name) {
  for (const auto& [key, value] : std::get<Value::Map>(of.data))
    if (key == name) return value;
  FAIL("no member " << name);
  return of;
}

TEST_CASE("prefix-cache: explain says what each pod would score and why, and counts nothing") {
  Fleet fleet(3, "topKMatches: 1");
  fleet.pods[0].name = "ns/a";
  const std::string prompt = text(640);
  fleet.serve(ask(prompt), fleet.pods[0].id);
  fleet.serve(ask(prompt.substr(0, 320)), fleet.pods[1].id);
  const auto observed = fleet.host.series("prefix_cache_match_ratio")->seen["m"].size();
  const Value said = dynamic_cast<ScorePlugin&>(*fleet.plugin).explain(ask(prompt), fleet.pods);
  CHECK(std::get<std::int64_t>(member(said, "hashedBlocks").data) == 10);
  CHECK(std::get<std::int64_t>(member(said, "hashedBytes").data) == 640);
  const auto& pods = std::get<Value::List>(member(said, "pods").data);
  REQUIRE(pods.size() == 3);
  CHECK(std::get<std::string>(member(pods[0], "pod").data) == "ns/a");
  const auto number = [&](std::size_t pod, std::string_view name) {
    return std::get<std::int64_t>(member(pods[pod], name).data);
  };
  CHECK(number(0, "score") == 100);
  CHECK(number(0, "topKPosition") == 1);
  CHECK(number(0, "entries") == 10);
  CHECK(number(0, "capacity") == 50000);
  CHECK(number(1, "score") == 0);  // beyond topKMatches
  CHECK(number(1, "matchedBlocks") == 5);
  CHECK(number(1, "matchedBytes") == 320);
  CHECK(member(pods[1], "topKPosition").is_null());
  CHECK(number(2, "matchedBlocks") == 0);
  CHECK(fleet.host.series("prefix_cache_match_ratio")->seen["m"].size() == observed);
  CHECK(fleet.host.series("warmroute_prefix_cache_requests_total")->sums["m"] == 2);
  const Value empty = dynamic_cast<ScorePlugin&>(*fleet.plugin).explain(ask(""), fleet.pods);
  CHECK_FALSE(std::get<bool>(member(empty, "scored").data));
}

}  // namespace
}  // namespace warmroute::test
