// The index against a naive model that is obviously right, over random histories. The seed of a failing run is
// printed; WR_PROPERTY_SEED repeats it, WR_PROPERTY_SECONDS makes the run longer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
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

/// Each pod is a list of blocks, most recently used first.
class Naive {
 public:
  struct Entry {
    std::uint64_t block = 0;
    ModelNumber model = 0;
    bool for_good = true;  ///< recorded by a complete answer
  };
  struct Early {
    PodId pod;
    CreditId credit = no_credit;
    Blocks blocks;
    ModelNumber model = 0;
  };
  using List = std::vector<Entry>;

  explicit Naive(std::size_t capacity) : capacity_(capacity) {}
  void add(PodId pod) { pods_[pod]; }
  void forget(PodId pod) { pods_.erase(pod); }
  /// \return evictions by model
  std::map<ModelNumber, std::size_t> record(PodId pod, const Blocks& blocks, ModelNumber model, bool for_good = true) {
    std::map<ModelNumber, std::size_t> evicted;
    if (pods_.count(pod) == 0) return evicted;
    List& list = pods_[pod];
    List fresh;
    for (const auto block : blocks) {
      const auto known =
          std::find_if(list.begin(), list.end(), [&](const Entry& entry) { return entry.block == block; });
      fresh.push_back(known == list.end() ? Entry{block, model, for_good} : *known);
      fresh.back().for_good = for_good || fresh.back().for_good;
      if (known != list.end()) known->block = 0;  // moved
    }
    for (const auto& entry : list)
      if (entry.block != 0) fresh.push_back(entry);
    list = std::move(fresh);
    for (; list.size() > capacity_; list.pop_back()) ++evicted[list.back().model];
    return evicted;
  }
  /// Removes what is not for good and in no other chain under way.
  void take_back(const Early& gone, const std::vector<Early>& others) {
    if (pods_.count(gone.pod) == 0) return;
    const auto contains = [](const Blocks& chain, std::uint64_t block) {
      return std::find(chain.begin(), chain.end(), block) != chain.end();
    };
    std::erase_if(pods_[gone.pod], [&](const Entry& entry) {
      return !entry.for_good && contains(gone.blocks, entry.block) &&
             std::none_of(others.begin(), others.end(), [&](const Early& other) {
               return other.pod == gone.pod && contains(other.blocks, entry.block);
             });
    });
  }
  std::uint32_t match(PodId pod, const Blocks& blocks) const {
    const auto found = pods_.find(pod);
    if (found == pods_.end()) return 0;
    std::uint32_t length = 0;
    const auto holds = [&](std::uint64_t block) {
      return std::any_of(found->second.begin(), found->second.end(),
                         [&](const auto& entry) { return entry.block == block; });
    };
    while (length < blocks.size() && holds(blocks[length])) ++length;
    return length;
  }
  std::size_t entries() const {
    std::size_t sum = 0;
    for (const auto& [pod, list] : pods_) sum += list.size();
    return sum;
  }
  std::vector<StoredBlock> copy(PodId pod) const {
    std::vector<StoredBlock> out;
    if (const auto found = pods_.find(pod); found != pods_.end())
      for (const auto& entry : found->second) out.push_back({entry.block, entry.model});
    return out;
  }

 private:
  std::size_t capacity_;
  std::map<PodId, List> pods_;
};

struct Named {
  PodId id;
};

/// One random history of an index with a few pods.
class History {
 public:
  /// Early chains are compared where nothing is evicted: there whose a block is has one obvious answer.
  History(std::uint64_t seed, bool early)
      : random_(seed),
        early_(early),
        capacity_(early ? 1000000 : (below(3) == 0 ? 1 + below(10) : 1 + below(1000))),
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
    while (!under_way_.empty()) end_early();
    REQUIRE(index_.entries() == naive_.entries());
    for (auto& pod : pods_) check_list(pod.id);
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

    std::vector<std::uint32_t> of_pod, depths;
    for (const auto& pod : some) {
      of_pod.push_back(naive_.match(pod.id, blocks));
      REQUIRE(index_.match(pod.id, blocks) == of_pod.back());
      if (of_pod.back() > 0) depths.push_back(of_pod.back());
    }
    std::sort(depths.rbegin(), depths.rend());
    depths.resize(std::min(limit, depths.size()));
    REQUIRE(found.size() == depths.size());
    std::vector<bool> seen(some.size(), false);
    for (std::size_t i = 0; i < found.size(); ++i) {
      REQUIRE(found[i].blocks == depths[i]);
      REQUIRE(of_pod[found[i].candidate] == found[i].blocks);
      REQUIRE_FALSE(seen[found[i].candidate]);
      seen[found[i].candidate] = true;
    }
  }

  void check_list(PodId pod) {
    std::vector<StoredBlock> list;
    index_.copy(pod, list);
    REQUIRE(list == naive_.copy(pod));
    REQUIRE(index_.fill(pod).entries == list.size());
  }

  void begin_early(PodId pod) {
    Naive::Early chain;
    chain.pod = pod;
    chain.model = static_cast<ModelNumber>(below(3));
    chain.blocks = prompt(chain.model);
    Evictions evicted;
    chain.credit = index_.record_early(pod, chain.blocks, chain.model, evicted);
    (void)naive_.record(pod, chain.blocks, chain.model, false);
    under_way_.push_back(std::move(chain));
  }
  void end_early() {
    const auto which = static_cast<std::ptrdiff_t>(below(under_way_.size()));
    const Naive::Early chain = under_way_[static_cast<std::size_t>(which)];
    under_way_.erase(under_way_.begin() + which);
    if (below(2) == 0) {
      (void)index_.take_back(chain.pod, chain.credit);
      naive_.take_back(chain, under_way_);
      REQUIRE(index_.entries() == naive_.entries());
    } else {
      Evictions evicted;
      index_.record(chain.pod, chain.blocks, chain.model, evicted, chain.credit);
      (void)naive_.record(chain.pod, chain.blocks, chain.model);
    }
  }

  void step() {
    const auto slot = static_cast<std::uint32_t>(below(pods_.size()));
    const std::size_t what = below(100);
    if (early_ && what < 30) {
      if (under_way_.empty() || below(2) == 0) {
        begin_early(pods_[slot].id);
      } else {
        end_early();
      }
    } else if (what < 45) {
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
      check_list(pods_[slot].id);
    }
  }

  std::mt19937_64 random_;
  const bool early_;
  std::size_t capacity_;
  Index index_;
  Naive naive_;
  std::vector<Named> pods_;
  std::vector<std::string> prompts_;
  std::vector<Naive::Early> under_way_;
  std::size_t longest_ = 1;
};

TEST_CASE("the index equals the naive model over random histories", "[property]") {
  const char* seconds = std::getenv("WR_PROPERTY_SECONDS");
  const char* given = std::getenv("WR_PROPERTY_SEED");
  const auto duration = std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 20.0);
  std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  const auto end = std::chrono::steady_clock::now() + duration;
  constexpr int steps = 400;
  std::size_t done = 0;
  do {
    INFO("repeat with WR_PROPERTY_SEED=" << seed);
    History(seed, false).run(steps);
    History(seed, true).run(steps / 4);  // the naive lists grow without a limit
    done += steps + steps / 4;
    ++seed;
  } while (given == nullptr && std::chrono::steady_clock::now() < end);
  WARN(done << " steps");
  CHECK(done > 0);
}

}  // namespace
}  // namespace warmroute::test
