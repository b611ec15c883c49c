#include "block_cache.hpp"

#include <xxhash.h>

namespace warmroute::mock {

BlockHashes block_hashes(std::string_view salt, std::string_view prompt, std::size_t block_bytes) {
  BlockHashes hashes;
  hashes.reserve(prompt.size() / block_bytes);
  std::uint64_t previous = XXH3_64bits(salt.data(), salt.size());
  for (std::size_t at = 0; at + block_bytes <= prompt.size(); at += block_bytes) {
    previous = XXH3_64bits_withSeed(prompt.data() + at, block_bytes, previous);
    hashes.push_back(previous);
  }
  return hashes;
}

std::size_t BlockCache::match(const BlockHashes& hashes) const {
  std::size_t n = 0;
  while (n < hashes.size() && where_.contains(hashes[n])) ++n;
  return n;
}

void BlockCache::insert(const BlockHashes& hashes) {
  if (capacity_ == 0) return;
  for (auto hash = hashes.rbegin(); hash != hashes.rend(); ++hash) {
    if (const auto found = where_.find(*hash); found != where_.end()) {
      recent_first_.splice(recent_first_.begin(), recent_first_, found->second);
      continue;
    }
    recent_first_.push_front(*hash);
    where_.emplace(*hash, recent_first_.begin());
    if (where_.size() > capacity_) {
      where_.erase(recent_first_.back());
      recent_first_.pop_back();
      ++evictions_;
    }
  }
}

void BlockCache::clear() {
  recent_first_.clear();
  where_.clear();
}

}  // namespace warmroute::mock
