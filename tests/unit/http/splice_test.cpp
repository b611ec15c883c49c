#include "http/splice.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace warmroute::http {
namespace {

std::string joined(std::string_view body, std::vector<Edit> edits) {
  std::string out;
  const auto pieces = splice(body, edits);
  for (const auto piece : pieces) {
    CHECK_FALSE(piece.empty());
    out.append(piece);
  }
  CHECK(total_size(pieces) == out.size());
  return out;
}

TEST_CASE("splice replaces, inserts and removes, in any order of edits") {
  const std::string body = "0123456789";
  CHECK(joined(body, {}) == body);
  CHECK(joined(body, {{{3, 5}, "abc"}}) == "012abc56789");
  CHECK(joined(body, {{{0, 0}, "<"}, {{10, 10}, ">"}}) == "<0123456789>");
  CHECK(joined(body, {{{8, 10}, "y"}, {{0, 2}, "x"}, {{4, 4}, "-"}}) == "x23-4567y");
  CHECK(joined(body, {{{2, 4}, ""}, {{4, 6}, "!"}}) == "01!6789");
  CHECK(joined(body, {{{5, 5}, "a"}, {{5, 5}, "b"}}) == "01234ab56789");
  CHECK(joined(body, {{{0, 10}, ""}}).empty());
  CHECK(joined("", {{{0, 0}, "x"}}) == "x");
}

TEST_CASE("splice does not copy the body") {
  const std::string body = "0123456789";
  std::vector<Edit> edits{{{3, 5}, "abc"}};
  const auto pieces = splice(body, edits);
  REQUIRE(pieces.size() == 3);
  CHECK(pieces[0].data() == body.data());
  CHECK(pieces[2].data() == body.data() + 5);
}

}  // namespace
}  // namespace warmroute::http
