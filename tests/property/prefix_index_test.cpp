// The index against a naive model that is obviously right, over random histories. The seed of a failing run is
// printed; WR_PROPERTY_SEED repeats it, WR_PROPERTY_SECONDS makes the run longer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <list>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "prefix/block_hash.hpp"
#include "prefix/index.hpp"

namespace warmroute::test {
namespace {

using namespace warmroute::prefix;
using Blocks = std::vector<std::uint64_t>;

/// Each pod is a list of (block, model), most recently used first.
class Naive {
 public:
  explicit Naive(std::size_t capacity) : capacity_(capacity) {}
  void add(PodId pod) { pods_[pod]; }
  void forget(PodId pod) { pods_.erase(pod); }
  /// \return evictions by model
  std::map<ModelNumber, std::size_t> record(PodId pod, const Blocks& blocks, ModelNumber model) {
    std::map<ModelNumber, std::size_t> evicted;
    if (pods_.count(pod) == 0) return evicted;
    List& list = pods_[pod];
    List fresh;
    for (const auto block : blocks) {
      ModelNumber first_model = model;
      for (auto entry = list.begin(); entry != list.end(); ++entry) {
        if (entry->first != block) continue;
        first_model = entry->second;
        list.erase(entry);
        break;
      }
      fresh.emplace_back(block, first_model);
    }
    list.splice(list.begin(), fresh);
    for (; list.size() > capacity_; list.pop_back()) ++evicted[list.back().second];
    return evicted;
  }
  std::uint32_t match(PodId pod, const Blocks& blocks) const {
    const auto found = pods_.find(pod);
    if (found == pods_.end()) return 0;
    std::uint32_t length = 0;
    const auto holds = [&](std::uint64_t block) {
      return std::any_of(found->second.begin(), found->second.end(),
                         [&](const auto& entry) { return entry.first == block; });
    };
    while (length < blocks.size() && holds(blocks[length])) ++length;
    return length;
  }
  std::size_t entries() const {
    std::size_t sum = 0;
    for (const auto& [pod, list] : pods_) sum += list.size();
    return sum;
  }

 private:
  using List = std::list<std::pair<std::uint64_t, ModelNumber>>;
  std::size_t capacity_;
  std::map<PodId, List> pods_;
};

struct Named {
  PodId id;
};

/// One random history of an index with a few pods.
class History {
 public:
  explicit History(std::uint64_t seed)
      : random_(seed),
        capacity_(below(3) == 0 ? 1 + below(10) : 1 + below(1000)),
        index_(capacity_),
        naive_(capacity_),
        pods_(below(5) == 0 ? 1 + below(80) : 1 + below(8)) {
    // Few letters and short blocks, so that prompts share heads of every length.
    longest_ = 1 + below(below(4) == 0 ? 400 : 40);
    for (std::uint32_t slot = 0; slot < pods_.size(); ++slot) join(slot);
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (index_.sweep(1000)) {
    }
    REQUIRE(index_.entries() == naive_.entries());
    for (auto& pod : pods_) leave(pod.id.slot);
    while (index_.sweep(1000)) {
    }
    REQUIRE(index_.entries() == 0);
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  void join(std::uint32_t slot) {
    naive_.forget(pods_[slot].id);  // an add in a taken slot forgets the incarnation before
    pods_[slot].id = {slot, pods_[slot].id.generation + 1};
    index_.add(pods_[slot].id);
    naive_.add(pods_[slot].id);
  }
  void leave(std::uint32_t slot) {
    index_.forget(pods_[slot].id);
    naive_.forget(pods_[slot].id);
  }

  Blocks prompt(ModelNumber model) {
    std::string text;
    if (!prompts_.empty() && below(4) != 0) {
      text = prompts_[below(prompts_.size())];
      text.resize(below(text.size() + 1));
    }
    const std::size_t length = std::max<std::size_t>(text.size(), 1 + below(longest_));
    while (text.size() < length) text.push_back(static_cast<char>('a' + below(2)));
    if (prompts_.size() < 50) {
      prompts_.push_back(text);
    } else {
      prompts_[below(50)] = text;
    }
    Blocks blocks;
    hash_blocks(chain_start(1, {std::to_string(model), {}, {}}), text, {}, 1, 1000, blocks);
    return blocks;
  }

  void check_lookup() {
    const Blocks blocks = prompt(static_cast<ModelNumber>(below(3)));
    std::vector<Named> some;
    for (const auto& pod : pods_)
      if (below(4) != 0) some.push_back(pod);
    std::shuffle(some.begin(), some.end(), random_);
    const std::size_t limit = below(3) == 0 ? 1000 : 1 + below(6);
    Candidates candidates;
    std::vector<Match> found;
    index_.choose<Named>(some, candidates);
    index_.lookup(blocks, candidates, limit, found);

    std::vector<std::uint32_t> depths;
    for (const auto& pod : some)
      if (const auto depth = naive_.match(pod.id, blocks); depth > 0) depths.push_back(depth);
    std::sort(depths.rbegin(), depths.rend());
    depths.resize(std::min(limit, depths.size()));
    REQUIRE(found.size() == depths.size());
    std::vector<bool> seen(some.size(), false);
    for (std::size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i].blocks == depths[i]);
      REQUIRE(naive_.match(some[found[i].candidate].id, blocks) == found[i].blocks);
      REQUIRE_FALSE(seen[found[i].candidate]);
      seen[found[i].candidate] = true;
    }
  }

  void step() {
    const auto slot = static_cast<std::uint32_t>(below(pods_.size()));
    const std::size_t what = below(100);
    if (what < 45) {
      const auto model = static_cast<ModelNumber>(below(3));
      const Blocks blocks = prompt(model);
      PodId pod = pods_[slot].id;
      if (below(50) == 0) --pod.generation;  // an incarnation that left
      Evictions evicted;
      index_.record(pod, blocks, model, evicted);
      std::map<ModelNumber, std::size_t> by_model;
      for (const auto& [evicted_model, entries] : evicted) by_model[evicted_model] += entries;
      REQUIRE(by_model == naive_.record(pod, blocks, model));
    } else if (what < 96) {
      check_lookup();
    } else if (what < 98) {
      leave(slot);
      if (below(2) == 0) join(slot);
    } else {
      (void)index_.sweep(1 + below(200));
      if (below(4) == 0) join(slot);
      REQUIRE(index_.entries() == naive_.entries());
    }
  }

  std::mt19937_64 random_;
  std::size_t capacity_;
  Index index_;
  Naive naive_;
  std::vector<Named> pods_;
  std::vector<std::string> prompts_;
  std::size_t longest_ = 1;
};

TEST_CASE("the index equals the naive model over random histories", "[property]") {
  const char* seconds = std::getenv("WR_PROPERTY_SECONDS");
  const char* given = std::getenv("WR_PROPERTY_SEED");
  const auto duration = std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 2.0);
  std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  const auto end = std::chrono::steady_clock::now() + duration;
  int histories = 0;
  do {
    INFO("repeat with WR_PROPERTY_SEED=" << seed);
    History(seed).run(400);
    ++histories;
    ++seed;
  } while (given == nullptr && std::chrono::steady_clock::now() < end);
  CHECK(histories > 0);
}

}  // namespace
}  // namespace warmroute::test
