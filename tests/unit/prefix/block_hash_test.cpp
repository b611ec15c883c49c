#include "prefix/block_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <set>
#include <string>

namespace warmroute::test {
namespace {

using prefix::chain_start;
using prefix::ChainRoot;
using prefix::hash_blocks;
using Hashes = std::vector<std::uint64_t>;

Hashes hashes(std::string_view prompt, std::size_t block = 64, std::size_t most = 128,
              const std::vector<MediaDigest>& media = {}, std::uint64_t start = 1) {
  Hashes out;
  hash_blocks(start, prompt, media, block, most, out);
  return out;
}

// Not where sanitizers slow one of the two down more than the other.
#if defined(NDEBUG) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
TEST_CASE("hashing in blocks of 64 bytes costs at most three passes of XXH3") {
  using Clock = std::chrono::steady_clock;
  std::string text(1U << 20U, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i * 7 % 26);
  Hashes out;
  out.reserve(text.size() / 64);
  // The best of many, taken in turn: both meet the same moments of quiet on a machine that does other things too.
  auto pass = Clock::duration::max(), blocks = Clock::duration::max();
  std::uint64_t sum = 0;
  for (int i = 0; i < 300; ++i) {
    const auto begun = Clock::now();
    sum += XXH3_64bits(text.data(), text.size());
    const auto between = Clock::now();
    out.clear();
    hash_blocks(1, text, {}, 64, text.size(), out);
    sum += out.back();
    pass = std::min(pass, between - begun);
    blocks = std::min(blocks, Clock::now() - between);
    ++text[static_cast<std::size_t>(i)];
  }
  CAPTURE(sum, pass.count(), blocks.count());
  CHECK(blocks <= 3 * pass);
}
#endif

TEST_CASE("the number of blocks is rounded up and limited") {
  CHECK(hashes("").empty());
  CHECK(hashes(std::string(192, 'x')).size() == 3);
  CHECK(hashes(std::string(320, 'x')).size() == 5);
  CHECK(hashes(std::string(1600, 'x')).size() == 25);
  CHECK(hashes(std::string(1601, 'x')).size() == 26);
  CHECK(hashes(std::string(32768, 'x')).size() == 128);
}

TEST_CASE("blocks are chained: equal only as far as everything before is equal") {
  const Hashes first = hashes("AAAABBBBCCCC", 4), second = hashes("AAAABBBBDDDD", 4), third = hashes("XXXXBBBBCCCC", 4);
  CHECK(first[0] == second[0]);
  CHECK(first[1] == second[1]);
  CHECK(first[2] != second[2]);
  for (std::size_t i = 0; i < 3; ++i) CHECK(first[i] != third[i]);
  const Hashes repeated = hashes("abcdabcd", 4);
  CHECK(repeated[0] != repeated[1]);
  CHECK(hashes("abcdabcd", 4, 128, {}, 2)[0] != repeated[0]);
}

TEST_CASE("every block size gives distinct hashes, also of zero bytes") {
  for (const std::size_t block : {1U, 2U, 3U, 7U, 16U, 17U, 64U, 128U, 129U, 240U, 241U, 4096U}) {
    const Hashes made = hashes(std::string(block * 300, '\0'), block, 1000);
    CHECK(std::set<std::uint64_t>(made.begin(), made.end()).size() == 300);
  }
}

TEST_CASE("parts of the root are delimited and all count") {
  const std::set<std::uint64_t> starts{chain_start(1, {"model", "", ""}),   chain_start(1, {"mode", "l", ""}),
                                       chain_start(1, {"mode", "", "l"}),   chain_start(1, {"model", "s", ""}),
                                       chain_start(1, {"model", "", "s"}),  chain_start(1, {"model", "s", "t"}),
                                       chain_start(1, {"model", "st", ""}), chain_start(1, {"", "", ""}),
                                       chain_start(2, {"model", "", ""}),   chain_start(1, {"model", "", "model"})};
  CHECK(starts.size() == 10);
  CHECK(chain_start(1, {"m", "s", "t"}) == chain_start(1, {"m", "s", "t"}));
  // Tools in front of a prompt are not the same as a prompt that starts with their text.
  const std::string tools(64, 't'), rest(64, 'r');
  const Hashes with = hashes(rest, 64, 128, {}, chain_start(1, {"m", "", tools}));
  const Hashes without = hashes(tools + rest, 64, 128, {}, chain_start(1, {"m", "", ""}));
  CHECK(with[0] != without[1]);
}

TEST_CASE("media change the block in which they stand and those after it") {
  const std::string prompt(256, 'p');
  const Hashes plain = hashes(prompt);
  const Hashes image = hashes(prompt, 64, 128, {{70, 9}});
  CHECK(image.size() == 4);
  CHECK(image[0] == plain[0]);
  for (std::size_t i = 1; i < 4; ++i) CHECK(image[i] != plain[i]);
  CHECK(hashes(prompt, 64, 128, {{70, 9}}) == image);
  CHECK(hashes(prompt, 64, 128, {{70, 8}})[1] != image[1]);
  CHECK(hashes(prompt, 64, 128, {{71, 9}})[1] != image[1]);
  CHECK(hashes(prompt, 64, 128, {{70, 9}, {70, 9}})[1] != image[1]);
  CHECK(hashes(prompt, 64, 128, {{70, 1}, {70, 2}})[1] != hashes(prompt, 64, 128, {{70, 2}, {70, 1}})[1]);
}

TEST_CASE("media at the end belong to the last block, beyond the coverage they are ignored") {
  const std::string prompt(128, 'p');
  const Hashes plain = hashes(prompt);
  const Hashes at_end = hashes(prompt, 64, 128, {{128, 9}});
  CHECK(at_end[0] == plain[0]);
  CHECK(at_end[1] != plain[1]);
  CHECK(hashes(std::string(100, 'p'), 64, 128, {{100, 9}})[1] != hashes(std::string(100, 'p'))[1]);
  CHECK(hashes(prompt, 64, 2, {{128, 9}}) == hashes(prompt, 64, 2));
  CHECK(hashes(prompt, 64, 1, {{70, 9}}) == hashes(prompt, 64, 1));
  CHECK(hashes("", 64, 128, {{0, 9}}).empty());
}

}  // namespace
}  // namespace warmroute::test
