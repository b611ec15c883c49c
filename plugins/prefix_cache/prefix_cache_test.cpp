#include "prefix_cache/prefix_cache.hpp"

#include <limits>
#include <string>
#include <utility>

#include "support/prefix_fleet.hpp"

namespace warmroute::test {
namespace {

TEST_CASE("prefix-cache: the pod that served the prompt scores 100, the others 0") {
  Fleet fleet(3);
  const std::string prompt = text(1000);
  CHECK(fleet.scores(ask(prompt)) == Scores{0, 0, 0});
  fleet.serve(ask(prompt), fleet.pods[1].id);
  CHECK(fleet.scores(ask(prompt)) == Scores{0, 100, 0});
  CHECK(fleet.entries() == 16);
}

TEST_CASE("prefix-cache: it knows how much of a prompt a pod holds", "[pd]") {
  Fleet fleet(2);
  const std::string prompt = text(1000);  // 15 blocks and a part
  const auto held = [&](std::string_view asked, std::size_t pod) {
    (void)fleet.scores(ask(asked));
    return dynamic_cast<KnowsPrefix&>(*fleet.plugin).held_bytes(ask(asked), fleet.state.get(), fleet.pods[pod].id);
  };
  CHECK(held(prompt, 1) == 0);
  fleet.serve(ask(prompt), fleet.pods[1].id);
  CHECK(held(prompt, 1) == 1000);
  CHECK(held(prompt, 0) == 0);
  CHECK(held(prompt + text(500, 'z'), 1) == 15 * 64);
  fleet.host.leave(fleet.pods[1].id);
  CHECK(held(prompt, 1) == 0);
}

TEST_CASE("prefix-cache: a score is the matched share of the blocks, cut off") {
  Fleet fleet(1);
  const std::string prompt = text(2000);  // 32 blocks
  fleet.serve(ask(std::string_view(prompt).substr(0, 24 * 64)), fleet.pods[0].id);
  CHECK(fleet.scores(ask(prompt)) == Scores{75});
  const std::string hundred = text(100 * 64, 'h');
  fleet.serve(ask(std::string_view(hundred).substr(0, 29 * 64)), fleet.pods[0].id);
  CHECK(fleet.scores(ask(hundred)) == Scores{28});  // 29.0 / 100 * 100 is below 29
}

TEST_CASE("prefix-cache: the short last block counts and must match whole") {
  Fleet fleet(1);
  const std::string prompt = text(70);
  fleet.serve(ask(prompt), fleet.pods[0].id);
  CHECK(fleet.entries() == 2);
  CHECK(fleet.scores(ask(std::string_view(prompt).substr(0, 69))) == Scores{50});
  CHECK(fleet.scores(ask(std::string_view(prompt).substr(0, 64))) == Scores{100});
}

TEST_CASE("prefix-cache: text beyond the coverage is not seen") {
  Fleet fleet(1, "{blockSizeToHash: 10, maxBlocksToMatch: 3}");
  CHECK(fleet.plugin->prompt_bytes_wanted() == 30);
  const std::string prompt = text(100);
  fleet.serve(ask(prompt), fleet.pods[0].id);
  CHECK(fleet.entries() == 3);
  CHECK(fleet.scores(ask(prompt.substr(0, 30) + "other")) == Scores{100});
}

TEST_CASE("prefix-cache: models, adapters, salts and tools are worlds apart") {
  Fleet fleet(1);
  const std::string prompt = text(300);
  RequestView request = ask(prompt);
  request.tools = R"([{"name":"f1"}])";
  request.cache_salt = "tenant-1";
  fleet.serve(request, fleet.pods[0].id);
  CHECK(fleet.scores(request) == Scores{100});
  RequestView other = request;
  other.model = "m-adapter";
  CHECK(fleet.scores(other) == Scores{0});
  other = request;
  other.tools = R"([{"name":"f2"}])";
  CHECK(fleet.scores(other) == Scores{0});
  other.tools = {};
  CHECK(fleet.scores(other) == Scores{0});
  other = request;
  other.cache_salt = "tenant-2";
  CHECK(fleet.scores(other) == Scores{0});
  std::swap(other.cache_salt, other.tools);
  CHECK(fleet.scores(other) == Scores{0});
}

TEST_CASE("prefix-cache: includeTools false leaves tools out") {
  Fleet fleet(1, "includeTools: false");
  const std::string prompt = text(300);
  RequestView request = ask(prompt);
  fleet.serve(request, fleet.pods[0].id);
  request.tools = "[1]";
  CHECK(fleet.scores(request) == Scores{100});
}

TEST_CASE("prefix-cache: an image changes its block and those after it") {
  Fleet fleet(1);
  const std::string prompt = text(640);
  const std::vector<MediaDigest> first{{200, 1}}, second{{200, 2}}, beyond{{64 * 128, 3}}, end{{640, 4}};
  RequestView request = ask(prompt);
  request.media = first;
  fleet.serve(request, fleet.pods[0].id);
  CHECK(fleet.scores(request) == Scores{100});
  request.media = second;
  CHECK(fleet.scores(request) == Scores{30});  // blocks 1 to 3 stand before it
  request.media = {};
  fleet.serve(request, fleet.pods[0].id);
  request.media = beyond;
  CHECK(fleet.scores(request) == Scores{100});
  request.media = end;
  CHECK(fleet.scores(request) == Scores{90});
}

TEST_CASE("prefix-cache: only answers complete to their end are remembered") {
  Fleet fleet(1);
  const std::string prompt = text(300);
  using End = Outcome::End;
  for (const auto& [end, status] :
       {std::pair(End::complete, 404), std::pair(End::complete, 302), std::pair(End::complete, 500),
        std::pair(End::cut, 200), std::pair(End::client_left, 200), std::pair(End::failed_before_first_byte, 0)}) {
    Outcome outcome;
    outcome.end = end;
    outcome.status = status;
    fleet.serve(ask(prompt), fleet.pods[0].id, outcome);
    CHECK(fleet.entries() == 0);
  }
  // A request that was not scored (pinned to its pod) is not recorded either.
  const auto state = fleet.plugin->new_state();
  dynamic_cast<PostRequest&>(*fleet.plugin).attempt_done(ask(prompt), state.get(), fleet.pods[0].id, Fleet::ok());
  CHECK(fleet.entries() == 0);
}

TEST_CASE("prefix-cache: an empty prompt is not scored and leaves no ratio") {
  Fleet fleet(2);
  const auto state = fleet.plugin->new_state();
  Scores scores(2, 0);
  CHECK_FALSE(dynamic_cast<ScorePlugin&>(*fleet.plugin).score(ask(""), state.get(), fleet.pods, scores));
  CHECK(fleet.host.series("prefix_cache_match_ratio")->seen.empty());
}

TEST_CASE("prefix-cache: the match ratio of the best pod is observed for each scoring") {
  Fleet fleet(2);
  const std::string prompt = text(256);
  fleet.serve(ask(prompt), fleet.pods[0].id);
  fleet.serve(ask(std::string_view(prompt).substr(0, 128)), fleet.pods[1].id);
  (void)fleet.scores(ask(prompt));
  (void)fleet.scores(ask("x"));
  CHECK(fleet.host.series("prefix_cache_match_ratio")->seen["m"] == std::vector<double>{0, 1, 1, 0});
  CHECK(fleet.host.series("prefix_cache_match_ratio")->buckets.size() == 9);
}

TEST_CASE("prefix-cache: a full list drops the least recently used, tails first, and counts them by model") {
  Fleet fleet(1, "{blockSizeToHash: 4, maxHashCacheSize: 4}");
  fleet.serve(ask("AAAABBBBCCCC", "m1"), fleet.pods[0].id);
  fleet.serve(ask("DDDDEEEE", "m2"), fleet.pods[0].id);
  CHECK(fleet.entries() == 4);
  CHECK(fleet.evictions("m1") == 1);
  CHECK(fleet.scores(ask("AAAABBBBCCCC", "m1")) == Scores{66});
  fleet.serve(ask("AAAA", "m1"), fleet.pods[0].id);
  fleet.serve(ask("FFFF", "m2"), fleet.pods[0].id);
  CHECK(fleet.scores(ask("AAAABBBB", "m1")) == Scores{50});  // the head was refreshed, the tail was not
  CHECK(fleet.scores(ask("DDDDEEEE", "m2")) == Scores{100});
  fleet.serve(ask("abcdefghijklmnopqrstuvwx", "m3"), fleet.pods[0].id);
  CHECK(fleet.entries() == 4);
  CHECK(fleet.scores(ask("abcdefghijklmnopqrstuvwx", "m3")) == Scores{66});
}

TEST_CASE("prefix-cache: topKMatches pods are rewarded, a draw decides among equals") {
  Fleet fleet(6, "topKMatches: 2");
  const std::string prompt = text(640);
  fleet.serve(ask(prompt), fleet.pods[5].id);
  for (std::size_t pod = 0; pod < 5; ++pod) fleet.serve(ask(prompt.substr(0, 320)), fleet.pods[pod].id);
  std::vector<int> rewarded(6, 0);
  for (int i = 0; i < 1000; ++i) {
    const Scores scores = fleet.scores(ask(prompt));
    CHECK(scores[5] == 100);
    int seconds = 0;
    for (std::size_t pod = 0; pod < 5; ++pod) {
      seconds += scores[pod] == 50 ? 1 : 0;
      rewarded[pod] += scores[pod] == 50 ? 1 : 0;
    }
    CHECK(seconds == 1);
  }
  for (std::size_t pod = 0; pod < 5; ++pod) CHECK(std::abs(rewarded[pod] - 200) < 100);
  // Only candidates count towards topK.
  fleet.pods.erase(fleet.pods.begin() + 5);
  const Scores scores = fleet.scores(ask(prompt));
  CHECK(std::count(scores.begin(), scores.end(), 50) == 2);
}

TEST_CASE("prefix-cache: an incarnation that left is forgotten and not written back") {
  Fleet fleet(2);
  const std::string prompt = text(640);
  fleet.serve(ask(prompt), fleet.pods[0].id);
  const RequestView request = ask(prompt);
  (void)fleet.scores(request);
  fleet.host.leave(fleet.pods[0].id);
  CHECK(fleet.entries() == 0);
  dynamic_cast<PostRequest&>(*fleet.plugin).attempt_done(request, fleet.state.get(), fleet.pods[0].id, Fleet::ok());
  CHECK(fleet.entries() == 0);
  CHECK(fleet.evictions("m") == 0);
  fleet.pods[0].id.generation = 2;  // comes back in the same slot
  fleet.host.join(fleet.pods[0].id);
  CHECK(fleet.scores(request) == Scores{0, 0});
  fleet.serve(request, fleet.pods[0].id);
  CHECK(fleet.scores(request) == Scores{100, 0});
}

TEST_CASE("prefix-cache: a pod of 50,000 entries leaves at once, its memory comes back in the background") {
  Fleet fleet(2, "{blockSizeToHash: 4, maxBlocksToMatch: 50000}");
  const auto bytes = [&fleet] { return fleet.host.gauges.at("warmroute_prefix_cache_bytes")(); };
  const double empty = bytes();
  const std::string prompt = text(200000);
  fleet.serve(ask(prompt), fleet.pods[0].id);
  CHECK(fleet.entries() == 50000);
  const double full = bytes();
  CHECK(full - empty > 50000 * 30);
  fleet.host.leave(fleet.pods[0].id);  // on the control thread: nothing is removed yet
  CHECK(fleet.entries() == 0);
  CHECK(fleet.scores(ask(prompt)) == Scores{0, 0});
  CHECK(full - bytes() < 64);
  fleet.serve(ask("x"), fleet.pods[1].id);  // on a worker: a few dozen entries
  CHECK(full - bytes() < 64 * 64);
  fleet.host.run_jobs();
  CHECK(bytes() - empty < 64 * 1024);
}

TEST_CASE("prefix-cache: arguments fall back as the seed says") {
  const std::string line = "Failed to unmarshal PrefixCacheArgs, using default values";
  for (const auto* args : {"{blockSizeToHash: '32', topKMatches: 1}", "{blockSizeToHash: 32.5}", "[1]", "text"}) {
    INFO(args);
    Fleet fleet(0, args);
    CHECK(std::count(fleet.host.errors.begin(), fleet.host.errors.end(), line) == 1);
    CHECK(fleet.plugin->prompt_bytes_wanted() == 64 * 128);
  }
  for (const auto* args : {"{}", "{blockSizeToHash: 0, maxBlocksToMatch: -3, maxHashCacheSize: 0, topKMatches: -1}"}) {
    Fleet fleet(0, args);
    CHECK(fleet.host.errors.empty());
    CHECK(fleet.plugin->prompt_bytes_wanted() == 64 * 128);
  }
  Fleet whole(0, "{BLOCKSIZETOHASH: 16.0, maxblockstomatch: 2e0}");
  CHECK(whole.plugin->prompt_bytes_wanted() == 32);
  CHECK(whole.host.warnings.empty());
  Fleet misspelled(0, "blockSize: 3");
  CHECK(FakeHost::contains(misspelled.host.warnings, "unknown argument \"blockSize\""));
  Fleet tools(0, "{includeTools: 3, blockSizeToHash: 32}");
  CHECK(FakeHost::contains(tools.host.warnings, "includeTools"));
  CHECK(tools.host.errors.empty());
  CHECK(tools.plugin->prompt_bytes_wanted() == 32 * 128);
  Fleet huge(0, "{blockSizeToHash: 9000000000000000000, maxBlocksToMatch: 9000000000000000000}");
  CHECK(huge.plugin->prompt_bytes_wanted() == std::numeric_limits<std::size_t>::max());
}

}  // namespace
}  // namespace warmroute::test
