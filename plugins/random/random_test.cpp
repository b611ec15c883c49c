#include "random/random.hpp"

#include <set>

#include "support/plugin_runner.hpp"

namespace warmroute::test {
namespace {

TEST_CASE("random: every integer from 0 to 100 comes up, nothing else") {
  FakeHost host;
  const auto plugin = make_plugin(plugins::make_random, host);
  std::set<std::int64_t> seen;
  for (int i = 0; i < 3000; ++i)
    for (const auto score : scores_of(*plugin, {pod_unknown(), pod_unknown()})) seen.insert(score);
  CHECK(*seen.begin() == 0);
  CHECK(*seen.rbegin() == 100);
  CHECK(seen.size() == 101);
}

}  // namespace
}  // namespace warmroute::test
