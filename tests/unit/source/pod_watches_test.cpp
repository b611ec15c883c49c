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

}  // namespace warmroute::source
