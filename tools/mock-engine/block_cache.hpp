#pragma once
// A block-wise LRU prefix cache, as engines have it: a block is known by the hash of everything up to its end.

#include <cstddef>
#include <cstdint>
#include <list>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace warmroute::mock {

using BlockHashes = std::vector<std::uint64_t>;

/// Chained hashes of the full blocks of `prompt`; `salt` (model, adapter) keeps prompts of different models apart.
[[nodiscard]] BlockHashes block_hashes(std::string_view salt, std::string_view prompt, std::size_t block_bytes);

class BlockCache {
 public:
  explicit BlockCache(std::size_t capacity) : capacity_(capacity) {}
  /// Blocks from the start that are present; does not change their order.
  [[nodiscard]] std::size_t match(const BlockHashes& hashes) const;
  /// Marks all as used just now, the first block as the most recent so that tails go before heads.
  void insert(const BlockHashes& hashes);
  void clear();
  [[nodiscard]] std::size_t size() const noexcept { return where_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint64_t evictions() const noexcept { return evictions_; }

 private:
  std::size_t capacity_;
  std::list<std::uint64_t> recent_first_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> where_;
  std::uint64_t evictions_ = 0;
};

}  // namespace warmroute::mock
