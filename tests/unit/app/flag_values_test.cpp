#include "app/flag_values.hpp"

#include <catch2/catch.hpp>

using namespace warmroute::app;
using std::chrono::milliseconds;

TEST_CASE("booleans as Go's ParseBool", "[flag_values]") {
  for (const auto* text : {"1", "t", "T", "TRUE", "true", "True"}) CHECK(*parse_bool(text));
  for (const auto* text : {"0", "f", "F", "FALSE", "false", "False"}) CHECK_FALSE(*parse_bool(text));
  for (const auto* text : {"", "yes", "no", "on", "tRUE", "2", " true"}) CHECK(parse_bool(text).has_error());
}

TEST_CASE("integers", "[flag_values]") {
  CHECK(*parse_int("8080") == 8080);
  CHECK(*parse_int("-5") == -5);
  CHECK(*parse_int("+5") == 5);
  CHECK(*parse_int("0x1F90") == 8080);
  CHECK(*parse_int("0b11") == 3);
  CHECK(*parse_int("9223372036854775807") == 9223372036854775807);
  CHECK(parse_int("9223372036854775808").error().detail == "is out of range");
  CHECK(parse_int("99999999999999999999").error().detail == "is out of range");
  CHECK(parse_int("70000", 1, 65535).error().detail == "must be between 1 and 65535");
  CHECK(parse_int("-1", 0).error().detail == "must be at least 0");
  for (const auto* text : {"", "x", "1.5", "5 ", " 5", "--5", "+-5", "0x", "1e3"}) {
    CAPTURE(text);
    CHECK(parse_int(text).error().detail == "must be an integer");
  }
}

TEST_CASE("durations as Go's ParseDuration", "[flag_values]") {
  const auto ms = [](std::string_view text) { return parse_duration(text)->count(); };
  CHECK(ms("300ms") == 300);
  CHECK(ms("1m30s") == 90'000);
  CHECK(ms("1.5h") == 5'400'000);
  CHECK(ms("1h2m3s4ms") == 3'723'004);
  CHECK(ms("0") == 0);
  CHECK(ms("-2s") == -2000);
  CHECK(ms("+2s") == 2000);
  CHECK(ms(".5s") == 500);
  CHECK(ms("1.s") == 1000);
  CHECK(ms("500us") == 1);  // rounded up: a positive time never becomes none
  CHECK(ms("1\xC2\xB5s") == 1);
  CHECK(ms("1ns") == 1);
  CHECK(ms("5m") == 300'000);
  for (const auto* text :
       {"", "-", "s", "5", "1.2.3s", "5x", "1h5", "1 s", " 1s", "1d", "9999999999999h", "inf", "1e3s"}) {
    CAPTURE(text);
    CHECK(parse_duration(text).has_error());
  }
  CHECK(parse_duration("5").error().detail == "missing unit in duration \"5\", try 5s");
  CHECK(parse_duration("5d").error().detail == "unknown unit \"d\" in duration \"5d\"");
}

TEST_CASE("durations are shown as Go does", "[flag_values]") {
  CHECK(show_duration(milliseconds(0)) == "0s");
  CHECK(show_duration(milliseconds(300)) == "300ms");
  CHECK(show_duration(milliseconds(5000)) == "5s");
  CHECK(show_duration(milliseconds(1500)) == "1.5s");
  CHECK(show_duration(milliseconds(1050)) == "1.05s");
  CHECK(show_duration(milliseconds(300'000)) == "5m0s");
  CHECK(show_duration(milliseconds(3'600'000)) == "1h0m0s");
  CHECK(show_duration(milliseconds(-90'000)) == "-1m30s");
  for (const std::int64_t count : {1, 999, 1001, 61'000, 3'600'001, 86'399'999}) {
    CHECK(parse_duration(show_duration(milliseconds(count)))->count() == count);
  }
}

TEST_CASE("sizes", "[flag_values]") {
  CHECK(*parse_bytes("65536") == 65536);
  CHECK(*parse_bytes("64KiB") == 65536);
  CHECK(*parse_bytes("64Ki") == 65536);
  CHECK(*parse_bytes("1.5MiB") == 1572864);
  CHECK(*parse_bytes("2GiB") == 2147483648);
  CHECK(*parse_bytes("1TiB") == 1099511627776);
  CHECK(*parse_bytes("0") == 0);
  CHECK(parse_bytes("99999999TiB").error().detail == "is out of range");
  CHECK(parse_bytes("99999999.5TiB").error().detail == "is out of range");
  for (const auto* text : {"", "x", "-1", "1.5", "5 KiB", "5KB", "5k", "KiB", "1..5KiB"}) {
    CAPTURE(text);
    CHECK(parse_bytes(text).has_error());
  }
  CHECK(show_bytes(65536) == "64KiB");
  CHECK(show_bytes(64ULL << 20U) == "64MiB");
  CHECK(show_bytes(1ULL << 30U) == "1GiB");
  CHECK(show_bytes(1000) == "1000");
  CHECK(show_bytes(0) == "0");
}

TEST_CASE("numbers", "[flag_values]") {
  CHECK(*parse_float("1.5") == 1.5);
  CHECK(*parse_float("-2e3") == -2000);
  CHECK(*parse_float("+7") == 7);
  CHECK(parse_float("x").has_error());
  CHECK(parse_float("1x").has_error());
  CHECK(parse_float("").has_error());
}
