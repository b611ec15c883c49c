// The half of Index that reads: who holds how much of a chain. Takes shard locks only.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/rng.hpp"
#include "prefix/index_pod.hpp"

namespace warmroute::prefix {

/// What one lookup has asked the table so far: how many candidates hold block `position` (counted from 1), and which.
struct Index::Probes {
  struct Probe {
    std::uint32_t position = 0;
    std::size_t count = 0;
  };
  std::size_t words = 0;
  std::vector<Probe> done;
  std::vector<std::uint64_t> sets;      ///< `words` for each probe
  std::vector<std::uint64_t> reported;  ///< candidates whose match is known
  std::vector<std::uint64_t> equals;    ///< candidates with the same match
  std::vector<std::uint8_t> in_word;    ///< how many of them each word has

  void start(std::size_t words_per_set) {
    words = words_per_set;
    done.clear();
    reported.assign(words, 0);
    equals.resize(words);
    in_word.resize(words);
  }
  std::span<std::uint64_t> add(std::uint32_t position) {
    done.push_back({position, 0});
    if (sets.size() < done.size() * words) sets.resize(done.size() * words);
    return {sets.data() + (done.size() - 1) * words, words};
  }
  /// Brings those that hold block `position` and are not reported yet to `equals`. \return how many
  std::size_t take_equals(std::uint32_t position) {
    std::size_t probe = 0;
    while (done[probe].position != position) ++probe;
    const std::uint64_t* set = sets.data() + probe * words;
    std::size_t count = 0;
    for (std::size_t i = 0; i < words; ++i) {
      equals[i] = set[i] & ~reported[i];
      reported[i] |= set[i];
      in_word[i] = static_cast<std::uint8_t>(std::popcount(equals[i]));
      count += in_word[i];
    }
    return count;
  }
  /// Takes the one with so many before it out of `equals`. \pre there is one
  PodNumber take_one(std::size_t before) {
    std::size_t word = 0;
    for (; before >= in_word[word]; ++word) before -= in_word[word];
    std::uint64_t left = equals[word];
    for (; before > 0; --before) left &= left - 1;
    const auto bit = static_cast<std::size_t>(std::countr_zero(left));
    equals[word] &= ~(std::uint64_t{1} << bit);
    --in_word[word];
    return static_cast<PodNumber>(word * 64 + bit);
  }
};

void Index::start(Candidates& out) const {
  const std::size_t numbers = numbers_.load(std::memory_order_acquire);
  out.words_.assign((numbers + 63) / 64, 0);
  // For every bit: a pod that joins in between may get a number up to the last of them.
  if (out.positions_.size() < out.words_.size() * 64) out.positions_.resize(out.words_.size() * 64);
  out.count_ = 0;
}

/// The last position that more than `found` candidates hold, 0 for none. What earlier levels asked is not asked again.
std::uint32_t Index::level(std::span<const std::uint64_t> blocks, const Candidates& candidates, std::size_t found,
                           Probes& probes) const {
  const auto size = static_cast<std::uint32_t>(blocks.size());
  std::uint32_t low = 0, high = size + 1;  // low: more than found (or unknown, 0); high: not more
  for (const auto& [position, count] : probes.done)
    if (count > found) low = std::max(low, position);
  // Beyond low only: answers of different moments may disagree, and then the longer match is believed.
  for (const auto& [position, count] : probes.done)
    if (count <= found && position > low) high = std::min(high, position);
  while (high - low > 1) {
    // The first block tells a miss, the last a full match: the two most frequent answers. Then halves.
    std::uint32_t position = low + (high - low) / 2;
    if (low == 0) {
      position = 1;
    } else if (high == size + 1) {
      position = size;
    } else {
      table_.prefetch(blocks[low + (position - low) / 2 - 1]);
      table_.prefetch(blocks[position + (high - position) / 2 - 1]);
    }
    const auto set = probes.add(position);
    const std::size_t count = table_.probe(blocks[position - 1], candidates.words_, set);
    probes.done.back().count = count;
    (count > found ? low : high) = position;
  }
  return low;
}

std::size_t Index::lookup(std::span<const std::uint64_t> blocks, const Candidates& candidates, std::size_t limit,
                          std::vector<Match>& out) const {
  thread_local Probes probes;
  out.clear();
  if (blocks.empty() || candidates.empty() || limit == 0) return 0;
  table_.prefetch(blocks.front());
  table_.prefetch(blocks.back());
  table_.prefetch(blocks[blocks.size() / 2]);
  probes.start(candidates.words_.size());
  // Writers at work may make the answers disagree; the matches found then lie between those before and after. Each
  // round reports at least one candidate more, so it ends.
  for (std::size_t found = 0; out.size() < limit && found < candidates.count_;) {
    const std::uint32_t position = level(blocks, candidates, found, probes);
    if (position == 0) break;
    const std::size_t equals = probes.take_equals(position);
    found += equals;
    const std::size_t taken = std::min(limit - out.size(), equals);
    for (std::size_t i = 0; i < taken; ++i) {
      // Where all are taken the first will do; else a draw, which costs the same for ten pods and for a thousand.
      const bool all = equals == taken;
      const PodNumber pod = probes.take_one(all ? 0 : base::random_below(equals - i));
      out.push_back({candidates.positions_[pod], position});
    }
  }
  return probes.done.size();
}

std::uint32_t Index::match(PodId pod, std::span<const std::uint64_t> blocks) const {
  const PodNumber number = number_of(pod);
  if (number == no_number || blocks.empty()) return 0;
  const auto holds = [&](std::size_t position) { return table_.find(blocks[position - 1], number).has_value(); };
  if (!holds(1)) return 0;
  std::size_t low = 1, high = blocks.size() + 1;
  if (holds(blocks.size())) return static_cast<std::uint32_t>(blocks.size());
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (holds(middle) ? low : high) = middle;
  }
  return static_cast<std::uint32_t>(low);
}

}  // namespace warmroute::prefix
