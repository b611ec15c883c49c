#include "http/percent.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace warmroute::http {
namespace {

TEST_CASE("path_of takes the path of every form of target") {
  CHECK(path_of("/v1/x") == "/v1/x");
  CHECK(path_of("/v1/x?a=/b?c") == "/v1/x");
  CHECK(path_of("/?") == "/");
  CHECK(path_of("http://host:1/v1/x?q") == "/v1/x");
  CHECK(path_of("http://host") == "/");
  CHECK(path_of("http://host?q=/x") == "/");
  CHECK(path_of("*") == "*");
  CHECK(path_of("/a://b/c") == "/a://b/c");
  CHECK(path_of("").empty());
}

TEST_CASE("percent_decode decodes bytes and reports broken escapes") {
  std::string out = "old";
  REQUIRE(percent_decode("/v1/a%20b%2Fc%2f+%C3%A9", out));
  CHECK(out == "/v1/a b/c/+\u00e9");
  REQUIRE(percent_decode("%00%7F%25", out));
  CHECK(out == std::string("\0\x7f%", 3));
  REQUIRE(percent_decode("", out));
  CHECK(out.empty());
  for (const std::string bad : {"%", "/a%", "/a%2", "/a%2g", "/a%g2", "%%20", "/a%2"}) {
    INFO(bad);
    CHECK_FALSE(percent_decode(bad, out));
  }
  REQUIRE(percent_decode("%2525", out));  // once, not until nothing changes
  CHECK(out == "%25");
}

}  // namespace
}  // namespace warmroute::http
