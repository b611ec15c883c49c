#include "prefix/index.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <map>
#include <vector>

namespace warmroute::test {
namespace {

using namespace warmroute::prefix;
using Blocks = std::vector<std::uint64_t>;

struct Named {
  PodId id;
};

std::uint64_t spread(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

Blocks chain(std::uint64_t of, std::size_t length) {
  Blocks made;
  for (std::size_t i = 0; i < length; ++i) made.push_back(spread(of * 1000003 + i + 1));
  return made;
}

Evictions record(Index& index, PodId pod, const Blocks& blocks, ModelNumber model = 0) {
  Evictions evicted;
  index.record(pod, blocks, model, evicted);
  return evicted;
}

/// Longest match by slot.
std::map<std::uint32_t, std::uint32_t> matches(const Index& index, const std::vector<Named>& pods, const Blocks& blocks,
                                               std::size_t limit = 1000) {
  Candidates candidates;
  std::vector<Match> found;
  index.choose<Named>(pods, candidates);
  index.lookup(blocks, candidates, limit, found);
  std::map<std::uint32_t, std::uint32_t> result;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0) CHECK(found[i - 1].blocks >= found[i].blocks);
    CHECK(result.emplace(pods[found[i].candidate].id.slot, found[i].blocks).second);
  }
  return result;
}

using Want = std::map<std::uint32_t, std::uint32_t>;

TEST_CASE("a lookup takes two probes and a bisection, and a bisection more for each further length") {
  for (const std::size_t length : {1U, 2U, 3U, 100U, 128U, 16'384U}) {
    const Blocks blocks = chain(9, length);
    const auto halvings = static_cast<std::size_t>(std::bit_width(length - 1));  // log2, rounded up
    // Prefixes of these lengths, each on some pods: none, one and all of the chain, and what lies between.
    const std::vector<std::size_t> kept{0, 1, length / 3, length / 2, length - 1, length};
    for (std::size_t different = 1; different <= kept.size(); ++different) {
      Index index(length);
      std::vector<Named> pods;
      for (std::uint32_t slot = 0; slot < 40; ++slot) {
        pods.push_back({{slot, 1}});
        index.add(pods.back().id);
        const std::size_t share = kept[kept.size() - 1 - slot % different];
        if (share != 0)
          (void)record(index, pods.back().id, Blocks(blocks.begin(), blocks.begin() + std::ptrdiff_t(share)));
      }
      Candidates candidates;
      std::vector<Match> found;
      index.choose<Named>(pods, candidates);
      CAPTURE(length, different);
      CHECK(index.lookup(blocks, candidates, pods.size(), found) <= 2 + different * halvings);
    }
  }
  Index index(10);
  index.add({0, 1});
  const std::vector<Named> pods{{{0, 1}}};
  Candidates candidates;
  std::vector<Match> found;
  index.choose<Named>(pods, candidates);
  CHECK(index.lookup(chain(9, 16'384), candidates, 5, found) == 1);  // a miss shows in the first block
  CHECK(found.empty());
}

TEST_CASE("each candidate has its own longest match") {
  Index index(100);
  std::vector<Named> pods;
  for (std::uint32_t slot = 0; slot < 3; ++slot) {
    pods.push_back({{slot, 1}});
    index.add(pods.back().id);
  }
  (void)record(index, pods[0].id, {1, 2, 3});
  (void)record(index, pods[1].id, {1, 2});
  (void)record(index, pods[2].id, {1, 4, 5});
  CHECK(matches(index, pods, {1, 2, 3}) == Want{{0, 3}, {1, 2}, {2, 1}});
  CHECK(matches(index, pods, {1, 2, 3}, 2) == Want{{0, 3}, {1, 2}});
  CHECK(matches(index, {pods[2]}, {1, 2, 3}) == Want{{2, 1}});
  CHECK(matches(index, {}, {1, 2, 3}).empty());
  CHECK(matches(index, pods, {}).empty());
  CHECK(matches(index, pods, {9, 2, 3}).empty());
  CHECK(index.entries() == 8);
}

TEST_CASE("candidates of a known version are named again when a pod came or went, or with another index") {
  Index index(10), other(10);
  Candidates candidates;
  std::vector<Match> found;
  std::vector<Named> pods{{{0, 1}}, {{1, 1}}};
  const auto ask = [&](const Index& of, std::uint64_t version) {
    of.choose<Named>(pods, candidates, version);
    of.lookup(Blocks{1}, candidates, 5, found);
    return found.size();
  };
  for (const auto& pod : pods) index.add(pod.id);
  (void)record(index, pods[0].id, {1});
  CHECK(ask(index, 7) == 1);
  (void)record(index, pods[1].id, {1});
  CHECK(ask(index, 7) == 2);
  CHECK(ask(other, 7) == 0);
  CHECK(ask(index, 7) == 2);
  index.forget(pods[0].id);
  CHECK(ask(index, 7) == 1);
  while (index.sweep(10)) {
  }
  // The number of the pod that left goes to one that is no candidate.
  index.add({5, 1});
  (void)record(index, {5, 1}, {1});
  CHECK(ask(index, 7) == 1);
  CHECK(found[0].candidate == 1);
  pods = {{{5, 1}}};
  CHECK(ask(index, 8) == 1);
  CHECK(found[0].candidate == 0);
  CHECK(ask(index, 0) == 1);
  pods = {{{1, 1}}};
  CHECK(ask(index, 0) == 1);
}

TEST_CASE("a list smaller than the prompt keeps its head") {
  Index index(2);
  const PodId pod{0, 1};
  index.add(pod);
  const Evictions evicted = record(index, pod, {1, 2, 3}, 7);
  REQUIRE(evicted.size() == 1);
  CHECK(evicted[0].model == 7);
  CHECK(evicted[0].entries == 1);
  CHECK(matches(index, {{pod}}, {1, 2, 3}) == Want{{0, 2}});
  Index five(3);
  five.add(pod);
  (void)record(five, pod, {1, 2, 3, 4, 5});
  CHECK(matches(five, {{pod}}, {1, 2, 3, 4, 5}) == Want{{0, 3}});
}

TEST_CASE("models share a pod's list and evictions are counted for the model that loses") {
  Index index(3);
  const PodId pod{0, 1};
  index.add(pod);
  (void)record(index, pod, {11, 12}, 1);
  (void)record(index, pod, {23}, 2);
  const Evictions evicted = record(index, pod, {15, 16}, 1);
  REQUIRE(evicted.size() == 1);
  CHECK(evicted[0].model == 1);
  CHECK(evicted[0].entries == 2);
  CHECK(matches(index, {{pod}}, {11, 12}).empty());
  CHECK(matches(index, {{pod}}, {15, 16}) == Want{{0, 2}});
  CHECK(matches(index, {{pod}}, {23}) == Want{{0, 1}});
}

TEST_CASE("a forgotten incarnation matches nothing, keeps nothing and cannot be recorded") {
  Index index(1000);
  const PodId pod{3, 1};
  const Blocks blocks = chain(1, 500);
  index.add(pod);
  (void)record(index, pod, blocks);
  const std::size_t full = index.bytes();
  index.forget(pod);
  CHECK(index.entries() == 0);
  CHECK(matches(index, {{pod}}, blocks).empty());
  (void)record(index, pod, blocks);
  CHECK(index.entries() == 0);

  // The next incarnation in the slot inherits nothing, also before the old one is swept.
  const PodId again{3, 2};
  index.add(again);
  CHECK(matches(index, {{again}}, blocks).empty());
  (void)record(index, again, Blocks(blocks.begin(), blocks.begin() + 10));
  CHECK(matches(index, {{again}}, blocks) == Want{{3, 10}});
  CHECK(matches(index, {{pod}}, blocks).empty());

  CHECK(index.needs_sweep());
  CHECK(index.sweep(200));
  CHECK(index.sweep(200));
  CHECK_FALSE(index.sweep(200));
  CHECK_FALSE(index.needs_sweep());
  CHECK(index.entries() == 10);
  CHECK(index.bytes() < full);
  CHECK(matches(index, {{again}}, blocks) == Want{{3, 10}});
}

TEST_CASE("pods that were never added or are out of range are left alone") {
  Index index(10);
  index.add({0, 0});
  index.add({1U << 20U, 1});
  (void)record(index, {0, 0}, {1});
  (void)record(index, {5, 1}, {1});
  (void)record(index, {1U << 20U, 1}, {1});
  CHECK(index.entries() == 0);
  CHECK(matches(index, {{{5, 1}}, {{1U << 20U, 1}}, {{0, 0}}}, {1}).empty());
  index.forget({5, 1});
  CHECK_FALSE(index.needs_sweep());
}

TEST_CASE("an add in a slot that is still taken forgets the earlier incarnation") {
  Index index(10);
  index.add({0, 1});
  (void)record(index, {0, 1}, {1, 2});
  index.add({0, 1});
  CHECK(index.entries() == 2);
  index.add({0, 2});
  CHECK(index.entries() == 0);
  CHECK(matches(index, {{{0, 2}}}, {1, 2}).empty());
}

TEST_CASE("blocks held by many pods are found for every one, and given back one by one") {
  constexpr std::uint32_t count = 300;
  Index index(64);
  std::vector<Named> pods;
  const Blocks shared = chain(5, 40);
  for (std::uint32_t slot = 0; slot < count; ++slot) {
    pods.push_back({{slot, 1}});
    index.add(pods.back().id);
    (void)record(index, pods.back().id, Blocks(shared.begin(), shared.begin() + 1 + slot % 40));
  }
  const auto all = matches(index, pods, shared);
  REQUIRE(all.size() == count);
  for (const auto& [slot, blocks] : all) CHECK(blocks == 1 + slot % 40);
  CHECK(matches(index, pods, shared, 5).size() == 5);
  for (std::uint32_t slot = 0; slot < count; slot += 2) index.forget(pods[slot].id);
  while (index.sweep(1000)) {
  }
  const auto half = matches(index, pods, shared);
  CHECK(half.size() == count / 2);
  for (const auto& [slot, blocks] : half) CHECK(blocks == 1 + slot % 40);
}

TEST_CASE("equals at the cut are drawn evenly") {
  Index index(10);
  std::vector<Named> pods;
  for (std::uint32_t slot = 0; slot < 8; ++slot) {
    pods.push_back({{slot, 1}});
    index.add(pods.back().id);
    (void)record(index, pods.back().id, {1, 2});
  }
  std::map<std::uint32_t, int> drawn;
  for (int i = 0; i < 4000; ++i)
    for (const auto& [slot, blocks] : matches(index, pods, {1, 2}, 3)) ++drawn[slot];
  for (std::uint32_t slot = 0; slot < 8; ++slot) CHECK(std::abs(drawn[slot] - 1500) < 250);
}

TEST_CASE("memory comes back when all pods leave") {
  Index index(20000);
  const std::size_t empty = index.bytes();
  for (std::uint32_t slot = 0; slot < 4; ++slot) {
    index.add({slot, 1});
    for (std::uint64_t prompt = 0; prompt < 100; ++prompt)
      (void)record(index, {slot, 1}, chain(slot * 100 + prompt, 128));
  }
  CHECK(index.entries() == 4 * 12800);
  CHECK(static_cast<double>(index.bytes() - empty) / static_cast<double>(index.entries()) < 48);
  for (std::uint32_t slot = 0; slot < 4; ++slot) index.forget({slot, 1});
  while (index.sweep(5000)) {
  }
  CHECK(index.bytes() < empty + 64 * 1024);  // the pods' own structures stay for the next ones
}

TEST_CASE("an early chain is matched at once and leaves nothing but what others recorded") {
  Index index(1000);
  const PodId pod{0, 1};
  index.add(pod);
  Evictions evicted;
  (void)record(index, pod, {1, 2});
  const CreditId first = index.record_early(pod, Blocks{1, 2, 3, 4, 5}, 0, evicted);
  CHECK(matches(index, {{pod}}, {1, 2, 3, 4, 5}) == Want{{0, 5}});
  const CreditId second = index.record_early(pod, Blocks{1, 2, 3, 9}, 0, evicted);
  REQUIRE(first != no_credit);
  REQUIRE(second != first);
  CHECK(index.take_back(pod, first) == 2);  // 4 and 5; 3 is also the second's
  CHECK(matches(index, {{pod}}, {1, 2, 3, 4, 5}) == Want{{0, 3}});
  CHECK(index.take_back(pod, first) == 0);
  CHECK(index.take_back(pod, second) == 2);  // 3 and 9; 1 and 2 were there before
  CHECK(matches(index, {{pod}}, {1, 2, 3}) == Want{{0, 2}});
}

TEST_CASE("what a complete answer recorded is not taken back by a failed one") {
  Index index(1000);
  const PodId pod{0, 1};
  index.add(pod);
  Evictions evicted;
  const CreditId failing = index.record_early(pod, Blocks{1, 2, 3, 4}, 0, evicted);
  const CreditId served = index.record_early(pod, Blocks{1, 2, 3}, 0, evicted);
  index.record(pod, Blocks{1, 2, 3}, 0, evicted, served);
  CHECK(index.take_back(pod, served) == 0);
  CHECK(index.take_back(pod, failing) == 1);
  CHECK(matches(index, {{pod}}, {1, 2, 3, 4}) == Want{{0, 3}});
  // A pod that left has nothing to take back, and gives no credit.
  const CreditId last = index.record_early(pod, Blocks{7}, 0, evicted);
  index.forget(pod);
  CHECK(index.take_back(pod, last) == 0);
  CHECK(index.record_early(pod, Blocks{7}, 0, evicted) == no_credit);
  index.add({0, 2});
  CHECK(index.take_back({0, 2}, last) == 0);
}

TEST_CASE("early chains under eviction leave contiguous prefixes") {
  std::uint64_t draw = 1;
  const auto below = [&draw](std::uint64_t bound) { return (draw = spread(draw + 0x9e3779b97f4a7c15U)) % bound; };
  Index index(40);
  const PodId pod{0, 1};
  index.add(pod);
  std::vector<std::pair<CreditId, Blocks>> under_way;
  Evictions evicted;
  for (int i = 0; i < 20000; ++i) {
    Blocks blocks = chain(1 + below(3), 1 + below(20));
    const Blocks rest = chain(100 + below(6), below(12));
    blocks.insert(blocks.end(), rest.begin(), rest.end());
    for (std::size_t k = 1; k < blocks.size(); ++k) blocks[k] = spread(blocks[k] ^ blocks[k - 1]);  // chained
    if (under_way.size() < 8 && below(2) == 0) {
      under_way.emplace_back(index.record_early(pod, blocks, 0, evicted), blocks);
    } else if (!under_way.empty() && below(2) == 0) {
      const auto [credit, own] = under_way.back();
      under_way.pop_back();
      if (below(2) == 0) {
        (void)index.take_back(pod, credit);
      } else {
        index.record(pod, own, 0, evicted, credit);
      }
    } else {
      index.record(pod, blocks, 0, evicted);
    }
    REQUIRE(index.fill(pod).entries <= 40);
    const auto found = matches(index, {{pod}}, blocks);
    std::uint32_t prefix = 0;
    std::vector<StoredBlock> list;
    index.copy(pod, list);
    const auto holds = [&](std::uint64_t block) {
      return std::any_of(list.begin(), list.end(), [&](const StoredBlock& entry) { return entry.hash == block; });
    };
    while (prefix < blocks.size() && holds(blocks[prefix])) ++prefix;
    for (std::size_t k = prefix; k < blocks.size(); ++k) REQUIRE_FALSE(holds(blocks[k]));
    REQUIRE(found == (prefix > 0 ? Want{{0, prefix}} : Want{}));
  }
}

TEST_CASE("a pod's capacity of its own: larger at once, smaller step by step") {
  Index index(10);
  const PodId pod{0, 1}, other{1, 1};
  index.add(pod);
  index.add(other);
  index.set_capacity(pod, 300);
  (void)record(index, pod, chain(1, 200));
  (void)record(index, other, chain(1, 200));
  CHECK(index.fill(pod).entries == 200);
  CHECK(index.fill(other).entries == 10);
  index.set_capacity(pod, 20);
  CHECK(index.fill(pod).entries == 200);
  const Evictions few = record(index, pod, chain(2, 10));
  CHECK(few.at(0).entries == 40);
  CHECK(index.fill(pod).entries == 170);
  (void)record(index, pod, chain(3, 60));
  CHECK(index.fill(pod).entries == 110);  // 20 of the 60 fit, four old ones went for each
  for (std::uint64_t more = 4; more < 8; ++more) (void)record(index, pod, chain(more, 10));
  (void)record(index, pod, chain(3, 60));
  CHECK(index.fill(pod).entries == 20);
  CHECK(matches(index, {{pod}}, chain(3, 60)) == Want{{0, 20}});
  index.set_capacity(pod, 0);
  CHECK(index.fill(pod).capacity == 1);
  index.forget(pod);
  index.add({0, 2});
  CHECK(index.fill({0, 2}).capacity == 10);
  CHECK(index.fill(pod).capacity == 0);
}

TEST_CASE("dropping the oldest ends with the named block, in steps") {
  Index index(1000);
  const PodId pod{0, 1};
  index.add(pod);
  const Blocks oldest = chain(1, 50), doubted = chain(2, 30), newest = chain(3, 20);
  for (const auto& blocks : {oldest, doubted, newest}) (void)record(index, pod, blocks);
  Evictions dropped;
  CHECK(index.drop_oldest(pod, doubted.front(), 60, dropped));
  CHECK(index.fill(pod).entries == 40);
  CHECK_FALSE(index.drop_oldest(pod, doubted.front(), 60, dropped));
  CHECK(dropped.at(0).entries == 80);
  CHECK(matches(index, {{pod}}, doubted).empty());
  CHECK(matches(index, {{pod}}, newest) == Want{{0, 20}});
  CHECK_FALSE(index.drop_oldest(pod, doubted.front(), 60, dropped));  // it is not there any more
  CHECK(index.entries() == 20);
}

TEST_CASE("a list goes out and comes back in its order, behind what is newer") {
  Index index(100);
  const PodId pod{0, 1}, again{0, 2};
  index.add(pod);
  (void)record(index, pod, chain(1, 20), 3);
  (void)record(index, pod, chain(2, 10), 4);
  std::vector<StoredBlock> list, back;
  index.copy(pod, list);
  REQUIRE(list.size() == 30);
  CHECK(list[0] == StoredBlock{chain(2, 10)[0], 4});
  CHECK(list[29] == StoredBlock{chain(1, 20)[19], 3});
  index.add(again);
  (void)record(index, again, chain(2, 4), 4);
  CHECK(index.restore(again, list) == 26);
  index.copy(again, back);
  CHECK(back == list);
  CHECK(index.restore(pod, list) == 0);
  CHECK(index.entries() == 30);
  index.add({1, 1});
  index.set_capacity({1, 1}, 12);
  CHECK(index.restore({1, 1}, list) == 12);
  CHECK(matches(index, {{{1, 1}}}, chain(1, 20)) == Want{{1, 2}});
  CHECK(matches(index, {{{1, 1}}}, chain(2, 10)) == Want{{1, 10}});
}

}  // namespace
}  // namespace warmroute::test
