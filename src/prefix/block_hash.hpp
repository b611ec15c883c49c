#pragma once
// A prompt as a chain of block hashes: block n has the same hash in two requests only when everything that the
// engine's cache depends on is equal up to the end of block n. Values are private to a process (decision 3.13): the
// chain is keyed with a random seed, so that clients cannot aim at collisions.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "warmroute/request_view.hpp"

namespace warmroute::prefix {

/// What stands in front of the first block. Requests that differ in any part share no block.
struct ChainRoot {
  std::string_view model;
  std::string_view cache_salt;
  std::string_view tools;  ///< empty: the request has none, or they do not count
};

/// The hash before the first block. Parts are delimited: moving bytes from one to the next changes it.
[[nodiscard]] std::uint64_t chain_start(std::uint64_t process_seed, const ChainRoot& root) noexcept;

/// Appends the hashes of the first `max_blocks` blocks of `block_bytes` bytes to `out`; the last block of the prompt
/// may be shorter and counts. Each of `media` (in order of its offset) changes the block in which it stands and all
/// after it; one at the very end belongs to the last block, one beyond the hashed blocks is ignored. Linear in the
/// bytes hashed. block_bytes > 0.
void hash_blocks(std::uint64_t start, std::string_view prompt, std::span<const MediaDigest> media,
                 std::size_t block_bytes, std::size_t max_blocks, std::vector<std::uint64_t>& out);

}  // namespace warmroute::prefix
