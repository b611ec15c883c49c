#include "base/characters.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace warmroute;

TEST_CASE("count_characters agrees with a plain loop at every length") {
  std::string text;
  while (text.size() < 40'000) text.append("a\u00e9\u20ac\U0001F600 plain text in between ");
  for (std::size_t size = 0; size < text.size(); size += size < 300 ? 1 : 4099) {
    std::int64_t plain = 0;
    for (const char c : text.substr(0, size)) plain += (static_cast<unsigned char>(c) & 0xC0U) != 0x80 ? 1 : 0;
    CHECK(base::count_characters(std::string_view(text).substr(0, size)) == plain);
  }
}
