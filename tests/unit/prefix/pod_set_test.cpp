#include "prefix/pod_set.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <vector>

namespace warmroute::test {
namespace {

using prefix::Place;
using prefix::PodNumber;
using prefix::PodSet;

void check_equal(const PodSet& set, const std::map<PodNumber, Place>& model, PodNumber limit) {
  REQUIRE(set.size() == model.size());
  for (PodNumber pod = 0; pod < limit; ++pod) {
    const auto found = set.find(pod);
    const auto wanted = model.find(pod);
    REQUIRE(found.has_value() == (wanted != model.end()));
    if (found) REQUIRE(*found == wanted->second);
  }
}

TEST_CASE("a pod set keeps every pod's place through both layouts") {
  std::mt19937 random(7);
  for (const auto limit : std::vector<PodNumber>{5, 40, 200, 1000}) {
    PodSet set;
    std::map<PodNumber, Place> model;
    for (int step = 0; step < 3000; ++step) {
      const auto pod = static_cast<PodNumber>(random() % limit);
      const bool filling = (step / 500) % 2 == 0;
      if (model.count(pod) != 0) {
        if (filling && random() % 4 != 0) continue;
        set.erase(pod);
        model.erase(pod);
      } else if (filling || random() % 4 == 0) {
        const Place place = random() & 0xFFFFFF;
        set.insert(pod, place);
        model[pod] = place;
      }
      if (step % 100 == 0) check_equal(set, model, limit);
    }
    check_equal(set, model, limit);
    while (model.size() > 1) {
      set.erase(model.begin()->first);
      model.erase(model.begin());
    }
    if (model.size() == 1) CHECK(set.first() == model.begin()->first);
  }
}

TEST_CASE("the intersection with candidates is counted and marked in both layouts") {
  for (const auto members : std::vector<PodNumber>{10, 60}) {
    PodSet set;
    for (PodNumber pod = 0; pod < members; ++pod) set.insert(static_cast<PodNumber>(pod * 3), pod);
    std::vector<std::uint64_t> candidates{~std::uint64_t{0}}, found{0};
    CHECK(set.intersect(candidates, found) == std::min<std::size_t>(members, 22));
    CHECK(found[0] == (members == 10 ? 0x0000000009249249U : 0x9249249249249249U));
    candidates = {0, 2};
    found = {0, 0};
    CHECK(set.intersect(candidates, found) == 0);
    candidates = {0, 4};  // pod 66
    CHECK(set.intersect(candidates, found) == (members == 60 ? 1U : 0U));
  }
}

}  // namespace
}  // namespace warmroute::test
