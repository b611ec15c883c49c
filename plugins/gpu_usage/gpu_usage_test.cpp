#include "gpu_usage/gpu_usage.hpp"

#include "support/plugin_runner.hpp"

namespace warmroute::test {
namespace {

using Scores = std::vector<std::int64_t>;

PodView used(double share) { return pod_with({0, 0, share, 0, 0}); }

TEST_CASE("gpu-usage: the free share in percent, cut off, 50 when unknown") {
  FakeHost host;
  const auto plugin = make_plugin(plugins::make_gpu_usage, host);
  CHECK(scores_of(*plugin, {used(0), used(0.5), used(1), pod_unknown()}) == Scores{100, 50, 0, 50});
  CHECK(scores_of(*plugin, {used(0.9), used(1.25)}) == Scores{9, -25});
}

TEST_CASE("gpu-usage: takes no arguments") {
  FakeHost host;
  (void)make_plugin(plugins::make_gpu_usage, host, "limit: 3");
  CHECK(FakeHost::contains(host.warnings, "known: none"));
}

}  // namespace
}  // namespace warmroute::test
