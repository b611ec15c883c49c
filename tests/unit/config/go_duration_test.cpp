#include "config/go_duration.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>

using namespace warmroute::config;
using std::chrono::nanoseconds;

TEST_CASE("durations as Go reads them", "[duration]") {
  struct Case {
    const char* text;
    std::int64_t nanoseconds;
  };
  for (const Case& each : {Case{"0", 0}, Case{"0s", 0}, Case{"5s", 5'000'000'000}, Case{"+5s", 5'000'000'000},
                           Case{"-1.5h", -5'400'000'000'000}, Case{"100ms", 100'000'000}, Case{"1m30s", 90'000'000'000},
                           Case{"2h45m", 9'900'000'000'000}, Case{".5s", 500'000'000}, Case{"1.s", 1'000'000'000},
                           Case{"3us", 3'000}, Case{"3\xC2\xB5s", 3'000}, Case{"3\xCE\xBCs", 3'000}, Case{"7ns", 7},
                           Case{"9223372036854775807ns", std::numeric_limits<std::int64_t>::max()}}) {
    INFO(each.text);
    const auto parsed = parse_go_duration(each.text);
    REQUIRE(parsed);
    CHECK(parsed->count() == each.nanoseconds);
  }
  for (const char* bad :
       {"", "-", "s", "5", "5 s", "5x", "1s2", ".s", "1..5s", "1e3s", "s5", "9223372036854775808ns", "3000000h"}) {
    INFO(bad);
    CHECK_FALSE(parse_go_duration(bad));
  }
  CHECK_FALSE(parse_go_duration(std::string(100000, '9') + "h"));
}

TEST_CASE("durations as Go writes them", "[duration]") {
  struct Case {
    std::int64_t nanoseconds;
    const char* text;
  };
  for (const Case& each : {Case{0, "0s"}, Case{7, "7ns"}, Case{1'500, "1.5\xC2\xB5s"}, Case{100'000'000, "100ms"},
                           Case{1'500'000'000, "1.5s"}, Case{60'000'000'000, "1m0s"}, Case{90'000'000'000, "1m30s"},
                           Case{7'200'000'000'000, "2h0m0s"}, Case{-1'000'000'000, "-1s"},
                           Case{std::numeric_limits<std::int64_t>::min(), "-2562047h47m16.854775808s"}}) {
    CHECK(go_duration_text(nanoseconds{each.nanoseconds}) == each.text);
    const auto back = parse_go_duration(each.text);
    if (each.nanoseconds == std::numeric_limits<std::int64_t>::min()) continue;  // its absolute value has no place
    REQUIRE(back);
    CHECK(back->count() == each.nanoseconds);
  }
}
