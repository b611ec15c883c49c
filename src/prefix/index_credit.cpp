// Chains that are recorded before their answer is complete, and taken back when it does not come.
//
// Whose a block is cannot be stored with it: several requests under way may share it, and one of them may be confirmed
// or fail at any time. So each pod keeps the few chains under way, and where their own part begins. Chained hashes make
// the common part of two chains a prefix, found by bisection.
#include <algorithm>
#include <new>

#include "prefix/index_pod.hpp"

namespace warmroute::prefix {
namespace {

using Chain = std::span<const std::uint64_t>;

std::size_t common_blocks(Chain a, Chain b) noexcept {
  std::size_t low = 0, high = std::min(a.size(), b.size()) + 1;  // low: equal up to there
  if (high == 1 || a.front() != b.front()) return 0;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (a[middle - 1] == b[middle - 1] ? low : high) = middle;
  }
  return low;
}

}  // namespace

CreditId Index::record_early(PodId pod, Chain blocks, ModelNumber model, Evictions& evicted) noexcept {
  const PodNumber number = number_of(pod);
  if (number == no_number || blocks.empty()) return no_credit;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner != pod) return no_credit;
  try {  // first, so that nothing is recorded that cannot be taken back
    entry.early.emplace_back();
    entry.early.back().blocks.assign(blocks.begin(), blocks.end());
  } catch (const std::bad_alloc&) {
    if (!entry.early.empty() && entry.early.back().id == no_credit) entry.early.pop_back();
    return no_credit;
  }
  std::size_t own = write(entry, blocks, model, evicted);
  EarlyChain& made = entry.early.back();
  for (const auto& other : entry.early)
    if (other.id != no_credit && other.own < common_blocks(other.blocks, blocks)) own = std::min(own, other.own);
  made.own = own;
  made.id = ++entry.last_credit;
  return made.id;
}

/// What is recorded for good is nobody's own any more. Ends the credit of the recording request.
void Index::confirm(Pod& pod, Chain blocks, CreditId credit) noexcept {
  std::erase_if(pod.early, [&](const EarlyChain& chain) { return credit != no_credit && chain.id == credit; });
  for (auto& chain : pod.early) chain.own = std::max(chain.own, common_blocks(chain.blocks, blocks));
}

std::size_t Index::take_back(PodId pod, CreditId credit) noexcept {
  const PodNumber number = number_of(pod);
  if (number == no_number || credit == no_credit) return 0;
  Pod& entry = pod_at(number);
  const std::lock_guard lock(entry.mutex);
  if (entry.owner != pod) return 0;
  const auto found =
      std::find_if(entry.early.begin(), entry.early.end(), [&](const EarlyChain& chain) { return chain.id == credit; });
  if (found == entry.early.end()) return 0;
  const EarlyChain gone = std::move(*found);
  entry.early.erase(found);
  std::size_t keep = gone.own;
  for (const auto& other : entry.early) keep = std::max(keep, common_blocks(other.blocks, gone.blocks));
  const std::size_t before = entry.list.size();
  // The last block first: what is left is a contiguous prefix at every moment. Some may have been evicted meanwhile.
  for (std::size_t i = gone.blocks.size(); i > keep; --i)
    if (const auto place = table_.find(gone.blocks[i - 1], number)) entry.remove(table_, *place);
  count(before, entry.list.size());
  return before - entry.list.size();
}

}  // namespace warmroute::prefix
