#include "base/characters.hpp"

#include <algorithm>
#include <array>
#include <cstring>

// Prompts have hundreds of kilobytes; wider registers halve the time, and again. A sanitizer is not ready yet when the
// choice is made.
#if defined(__x86_64__) && !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
#define WR_WIDEST __attribute__((target_clones("avx512bw", "avx2", "default")))
#else
#define WR_WIDEST
#endif

namespace warmroute::base {
namespace {

constexpr std::size_t lanes = 64;

// Lanes of a byte each make the compiler use byte-wide vector additions; they are emptied before they can overflow.
WR_WIDEST std::int64_t count_rows(const char* bytes, std::size_t rows) noexcept {
  std::int64_t characters = 0;
  while (rows > 0) {
    std::array<std::uint8_t, lanes> sums{};
    const std::size_t now = rows < 255 ? rows : 255;
    for (std::size_t row = 0; row < now; ++row, bytes += lanes)
      for (std::size_t lane = 0; lane < lanes; ++lane)
        sums[lane] = static_cast<std::uint8_t>(sums[lane] + (static_cast<signed char>(bytes[lane]) > -65 ? 1U : 0U));
    for (const std::uint8_t sum : sums) characters += sum;
    rows -= now;
  }
  return characters;
}

}  // namespace

std::int64_t count_characters(std::string_view text) noexcept {
  constexpr std::uint64_t ones = 0x0101010101010101U;
  std::int64_t characters = 0;
  if (text.size() >= 4 * lanes) {
    characters = count_rows(text.data(), text.size() / lanes);
    text.remove_prefix(text.size() / lanes * lanes);
  }
  for (; text.size() >= sizeof ones; text.remove_prefix(sizeof ones)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), sizeof word);
    const std::uint64_t continuing = (word >> 7U) & ~(word >> 6U) & ones;
    characters += 8 - static_cast<std::int64_t>((continuing * ones) >> 56U);
  }
  for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xC0U) != 0x80 ? 1 : 0;
  return characters;
}

}  // namespace warmroute::base
