// Recorders, lookers, removers and sweepers at once; meant for the thread sanitizer, but the outcome is checked too.
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "prefix/block_hash.hpp"
#include "prefix/index.hpp"

namespace warmroute::test {
namespace {

using namespace warmroute::prefix;

struct Named {
  PodId id;
};

constexpr std::uint32_t pod_count = 12;
constexpr std::size_t capacity = 300;

/// What all threads share: the index and the pods' current incarnations.
struct Shared {
  Index index{capacity};
  std::array<std::atomic<std::uint32_t>, pod_count> generations{};
  std::atomic<bool> stop{false};
  std::atomic<std::size_t> wrong{0};
};

std::vector<std::uint64_t> prompt(std::mt19937& random) {
  std::string text(1 + random() % 90, 'a');
  for (std::size_t i = random() % 60; i < text.size(); ++i) text[i] = static_cast<char>('a' + random() % 2);
  std::vector<std::uint64_t> blocks;
  hash_blocks(random() % 3, text, {}, 1, 200, blocks);
  return blocks;
}

void record(Shared& shared, unsigned seed, int rounds) {
  std::mt19937 random(seed);
  Evictions evicted;
  for (int i = 0; i < rounds; ++i) {
    const std::uint32_t slot = random() % pod_count;
    evicted.clear();
    const PodId pod{slot, shared.generations[slot].load()};
    const auto blocks = prompt(random);
    if (i % 3 == 0) {  // some are recorded early, and half of these fail
      const CreditId credit = shared.index.record_early(pod, blocks, 1, evicted);
      std::this_thread::yield();
      if (i % 2 == 0) (void)shared.index.take_back(pod, credit);
      if (i % 2 != 0) shared.index.record(pod, blocks, 1, evicted, credit);
    } else {
      shared.index.record(pod, blocks, 1, evicted);
    }
    if (i % 16 == 1) (void)shared.index.drop_oldest(pod, blocks.front(), 20, evicted);
    if (i % 64 == 2) shared.index.set_capacity(pod, 1 + random() % capacity);
    if (i % 8 == 0) (void)shared.index.sweep(16);
  }
}

void look_up(Shared& shared, unsigned seed) {
  std::mt19937 random(seed);
  Candidates candidates;
  std::vector<Match> found;
  std::vector<Named> pods(pod_count);
  std::vector<StoredBlock> copied;
  while (!shared.stop.load()) {
    for (std::uint32_t slot = 0; slot < pod_count; ++slot) pods[slot].id = {slot, shared.generations[slot].load()};
    const auto blocks = prompt(random);
    shared.index.choose<Named>(pods, candidates);
    shared.index.lookup(blocks, candidates, 5, found);
    bool right = found.size() <= 5;
    for (const auto& match : found) right = right && match.candidate < pod_count && match.blocks <= blocks.size();
    if (!right) ++shared.wrong;
    if (shared.index.entries() > pod_count * capacity) ++shared.wrong;
    const PodId one = pods[random() % pod_count].id;
    if (shared.index.match(one, blocks) > blocks.size()) ++shared.wrong;
    if (random() % 16 == 0) shared.index.copy(one, copied);
    if (random() % 16 == 1) (void)shared.index.restore(one, copied);
  }
}

void replace_pods(Shared& shared, unsigned seed) {
  std::mt19937 random(seed);
  while (!shared.stop.load()) {
    const std::uint32_t slot = random() % pod_count;
    const PodId old{slot, shared.generations[slot].load()};
    shared.index.forget(old);
    shared.index.add({slot, old.generation + 1});
    shared.generations[slot].store(old.generation + 1);
    (void)shared.index.sweep(100);
    (void)shared.index.bytes();
    std::this_thread::yield();
  }
}

TEST_CASE("recorders, lookers and removers may work at once") {
  Shared shared;
  for (std::uint32_t slot = 0; slot < pod_count; ++slot) {
    shared.generations[slot] = 1;
    shared.index.add({slot, 1});
  }
  std::vector<std::thread> lookers, recorders;
  for (unsigned i = 0; i < 2; ++i) lookers.emplace_back([&shared, i] { look_up(shared, 100 + i); });
  lookers.emplace_back([&shared] { replace_pods(shared, 200); });
  for (unsigned i = 0; i < 3; ++i) recorders.emplace_back([&shared, i] { record(shared, i, 3000); });
  for (auto& thread : recorders) thread.join();
  shared.stop = true;
  for (auto& thread : lookers) thread.join();
  CHECK(shared.wrong == 0);

  // At rest the index is consistent again: no trace of incarnations that left, and every number can be used again.
  for (std::uint32_t slot = 0; slot < pod_count; ++slot) shared.index.forget({slot, shared.generations[slot]});
  while (shared.index.sweep(1000)) {
  }
  CHECK(shared.index.entries() == 0);
  const PodId fresh{0, 1U << 30U};
  shared.index.add(fresh);
  std::mt19937 random(1);
  Candidates candidates;
  std::vector<Match> found;
  const std::vector<Named> pods{{fresh}};
  for (int i = 0; i < 2000; ++i) {
    shared.index.choose<Named>(pods, candidates);
    shared.index.lookup(prompt(random), candidates, 5, found);
    REQUIRE(found.empty());
  }
}

}  // namespace
}  // namespace warmroute::test
