#include "openai/json_string.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace warmroute::openai {
namespace {

std::string whole(std::string_view raw, std::int64_t& characters) {
  std::string out;
  characters = 0;
  REQUIRE(unescape(raw, std::string::npos, out, characters) == std::string_view::npos);
  return out;
}

TEST_CASE("unescape knows every escape and counts characters") {
  std::int64_t characters = 0;
  CHECK(whole(R"(\"\\\/\b\f\n\r\t)", characters) == "\"\\/\b\f\n\r\t");
  CHECK(characters == 8);
  CHECK(whole(R"(a\u0041\u00e9\u20AC\ud83d\uDE00)", characters) == "aA\u00e9\u20ac\U0001F600");
  CHECK(characters == 5);
  CHECK(whole(R"(\u0000)", characters) == std::string(1, '\0'));
  CHECK(whole("", characters).empty());
  CHECK(characters == 0);
}

TEST_CASE("unescape replaces lone surrogates") {
  std::int64_t characters = 0;
  const std::string bad = "\xEF\xBF\xBD";
  CHECK(whole(R"(\ud800)", characters) == bad);
  CHECK(whole(R"(\ud800A)", characters) == bad + "A");
  CHECK(whole(R"(\udc00\ud800)", characters) == bad + bad);
  CHECK(characters == 2);
  CHECK(whole(R"(\ud800\ud800\udc00)", characters) == bad + "\U00010000");
  CHECK(whole(R"(\ud800\n)", characters) == bad + "\n");
  CHECK(whole(R"(\ud800\u0041)", characters) == bad + "A");
  CHECK(characters == 2);
}

TEST_CASE("unescape says where an escape is malformed") {
  std::string out;
  std::int64_t characters = 0;
  CHECK(unescape(R"(ab\q)", 100, out, characters) == 2);
  CHECK(unescape(R"(\u12)", 100, out, characters) == 0);
  CHECK(unescape(R"(\n\u12g4)", 100, out, characters) == 2);
  CHECK(unescape(R"(\ud800\u12g4)", 100, out, characters) == 6);
  CHECK(unescape("\\", 100, out, characters) == 0);
}

TEST_CASE("unescape stops writing at the limit but counts on") {
  const std::string raw = R"(abc\n\u20acdef)";
  const std::string text =
      "abc\n\u20ac"
      "def";
  for (std::size_t limit = 0; limit < text.size() + 2; ++limit) {
    std::string out = "x";
    std::int64_t characters = 0;
    REQUIRE(unescape(raw, limit + 1, out, characters) == std::string_view::npos);
    CHECK(out == "x" + text.substr(0, limit));
    CHECK(characters == 8);
  }
}

TEST_CASE("valid_utf8_length finds the first invalid byte") {
  CHECK(valid_utf8_length("a\u00e9\u20ac\U0001F600") == 10);
  for (const std::string bad : {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                                "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xC3", "\xE2\x82", "\xC3(", "\xFF"}) {
    CHECK(valid_utf8_length("ok" + bad) == 2);
  }
}

}  // namespace
}  // namespace warmroute::openai
