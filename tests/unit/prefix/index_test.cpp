#include "prefix/index.hpp"

#include <algorithm>
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

}  // namespace
}  // namespace warmroute::test
