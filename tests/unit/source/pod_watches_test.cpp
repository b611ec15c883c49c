#include "source/pod_watches.hpp"

#include <catch2/catch.hpp>

namespace warmroute::source {
namespace {

model::ModelServer server(const std::string& ns, model::Labels selector) {
  model::ModelServer out;
  out.meta.ns = ns;
  out.selector = std::move(selector);
  return out;
}

std::string shown(const std::vector<model::ModelServer>& servers) {
  std::string out;
  for (const auto& selection : pod_selections(servers)) out += selection.ns + ":" + selection.selector() + " ";
  return out;
}

}  // namespace

TEST_CASE("each selection of pods is followed once, and only where no wider one is") {
  CHECK(shown({}).empty());
  CHECK(shown({server("n", {{"app", "a"}}), server("n", {{"app", "a"}}), server("m", {{"app", "a"}})}) ==
        "m:app=a n:app=a ");
  CHECK(shown({server("n", {{"app", "a"}, {"role", "p"}}), server("n", {{"app", "a"}}),
               server("n", {{"app", "a"}, {"role", "d"}, {"x", "y"}})}) == "n:app=a ");
  CHECK(shown({server("n", {{"app", "a"}, {"role", "p"}}), server("n", {{"app", "b"}}),
               server("m", {{"role", "p"}})}) == "m:role=p n:app=a,role=p n:app=b ");
  CHECK(shown({server("n", {})}).empty());  // no selector selects nothing, not everything
}

TEST_CASE("many selections of a namespace that differ in one value are one") {
  std::vector<model::ModelServer> few, many;
  for (int i = 0; i < 8; ++i) few.push_back(server("n", {{"app", "a" + std::to_string(i)}}));
  CHECK(pod_selections(few).size() == 8);
  many = few;
  many.push_back(server("n", {{"app", "a9"}}));
  CHECK(shown(many) == "n:app in (a0,a1,a2,a3,a4,a5,a6,a7,a9) ");
  many.push_back(server("m", {{"app", "a1"}}));
  many.push_back(server("n", {{"other", "x"}}));
  many.push_back(server("n", {{"app", "z"}, {"role", "p"}}));
  many.push_back(server("n", {{"app", "z"}, {"role", "d"}}));
  many.push_back(server("n", {{"app", "y"}, {"role", "d"}}));
  CHECK(shown(many) ==
        "m:app=a1 n:app in (a0,a1,a2,a3,a4,a5,a6,a7,a9) n:app in (y,z),role=d n:app=z,role=p n:other=x ");

  std::vector<model::ModelServer> crowd;
  for (int i = 0; i < 150; ++i) crowd.push_back(server("n", {{"tier", "gold"}, {"app", "a" + std::to_string(i)}}));
  const auto selections = pod_selections(crowd);
  REQUIRE(selections.size() == 3);
  std::set<std::string> covered;
  for (const auto& each : selections) {
    CHECK(each.labels.at("tier") == std::set<std::string>{"gold"});
    CHECK(each.labels.at("app").size() <= selection_values);
    covered.insert(each.labels.at("app").begin(), each.labels.at("app").end());
  }
  CHECK(covered.size() == 150);
}

}  // namespace warmroute::source
