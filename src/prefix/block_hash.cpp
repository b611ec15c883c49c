#define XXH_INLINE_ALL  // a call per block of 64 bytes would cost as much as the hash
#include "prefix/block_hash.hpp"

#include <xxhash.h>

#include <algorithm>
#include <array>

namespace warmroute::prefix {
namespace {

// Tags keep apart what is chained; any distinct odd numbers do.
constexpr std::uint64_t salt_tag = 0x9e3779b97f4a7c15U;
constexpr std::uint64_t tools_tag = 0xc2b2ae3d27d4eb4fU;
constexpr std::uint64_t media_tag = 0x165667b19e3779f9U;

// XXH3 mixes in the length, so a chain of whole parts is delimited by itself.
std::uint64_t chain(std::uint64_t before, const void* bytes, std::size_t size) noexcept {
  return XXH3_64bits_withSeed(bytes, size, before);
}

}  // namespace

std::uint64_t chain_start(std::uint64_t process_seed, const ChainRoot& root) noexcept {
  std::uint64_t hash = chain(process_seed, root.model.data(), root.model.size());
  if (!root.cache_salt.empty()) hash = chain(hash ^ salt_tag, root.cache_salt.data(), root.cache_salt.size());
  if (!root.tools.empty()) hash = chain(hash ^ tools_tag, root.tools.data(), root.tools.size());
  return hash;
}

void hash_blocks(std::uint64_t start, std::string_view prompt, std::span<const MediaDigest> media,
                 std::size_t block_bytes, std::size_t max_blocks, std::vector<std::uint64_t>& out) {
  const std::size_t in_prompt = prompt.size() / block_bytes + (prompt.size() % block_bytes != 0 ? 1 : 0);
  const std::size_t count = std::min(in_prompt, max_blocks);
  out.reserve(out.size() + count);
  // The block of the next medium; max_blocks and more: none, or beyond what is hashed.
  auto next = media.begin();
  const auto block_of_next = [&] { return next == media.end() ? max_blocks : next->text_offset / block_bytes; };
  std::size_t next_block = block_of_next();
  std::uint64_t hash = start;
  for (std::size_t block = 0; block < count; ++block) {
    const std::size_t begin = block * block_bytes;
    hash = chain(hash, prompt.data() + begin, std::min(block_bytes, prompt.size() - begin));
    const bool last = block + 1 == count;
    while (next_block <= block || (last && next_block < max_blocks)) {
      const std::array<std::uint64_t, 2> stands{next->text_offset - begin, next->digest};
      hash = chain(hash ^ media_tag, stands.data(), sizeof stands);
      ++next;
      next_block = block_of_next();
    }
    out.push_back(hash);
  }
}

}  // namespace warmroute::prefix
