#include "least_request/least_request.hpp"

#include "support/plugin_runner.hpp"

namespace warmroute::test {
namespace {

using Scores = std::vector<std::int64_t>;
using Kept = std::vector<bool>;
using plugins::make_least_request;

PodView busy(std::int64_t in_flight, double running) { return pod_with({running, 0, 0, 0, 0}, in_flight); }
PodView queued(double waiting) { return pod_with({0, waiting, 0, 0, 0}); }

TEST_CASE("least-request: requests the engine does not run yet count a hundredfold") {
  FakeHost host;
  const auto plugin = make_plugin(make_least_request, host);
  CHECK(scores_of(*plugin, {busy(0, 0), busy(0, 0), busy(0, 0)}) == Scores{100, 100, 100});
  CHECK(scores_of(*plugin, {busy(0, 0), busy(10, 0), busy(5, 0)}) == Scores{100, 0, 50});
  CHECK(scores_of(*plugin, {busy(1, 0), busy(2, 0), busy(3, 0)}) == Scores{66, 33, 0});
  CHECK(scores_of(*plugin, {busy(5, 5), busy(5, 0), busy(0, 0)}) == Scores{99, 0, 100});
}

TEST_CASE("least-request: a pod of unknown load is scored as if all our requests ran") {
  FakeHost host;
  const auto plugin = make_plugin(make_least_request, host);
  CHECK(scores_of(*plugin, {pod_unknown(5), busy(5, 5), busy(10, 10)}) == Scores{50, 50, 0});
}

TEST_CASE("least-request: the filter keeps queues below the limit and unknown pods") {
  FakeHost host;
  const auto plugin = make_plugin(make_least_request, host, "maxWaitingRequests: 3");
  CHECK(kept_by(*plugin, {queued(2), queued(3), queued(4), pod_unknown()}) == Kept{true, false, false, true});
  CHECK(host.errors.empty());
}

TEST_CASE("least-request: zero and missing mean 10, negative limits stay") {
  FakeHost host;
  for (const auto* args : {"", "{}", "maxWaitingRequests: 0", "maxWaitingRequests: null"}) {
    INFO(args);
    CHECK(kept_by(*make_plugin(make_least_request, host, args), {queued(9), queued(10)}) == Kept{true, false});
  }
  CHECK(kept_by(*make_plugin(make_least_request, host, "maxWaitingRequests: -1"), {queued(0)}) == Kept{false});
}

TEST_CASE("least-request: bad arguments are logged and fall back") {
  for (const auto* args : {"maxWaitingRequests: '3'", "maxWaitingRequests: 3.5", "[3]"}) {
    FakeHost host;
    INFO(args);
    CHECK(kept_by(*make_plugin(make_least_request, host, args), {queued(9), queued(10)}) == Kept{true, false});
    CHECK(host.errors.size() == 1);
  }
  FakeHost host;
  (void)make_plugin(make_least_request, host, "maxWaiting: 3");
  CHECK(FakeHost::contains(host.warnings, "unknown argument \"maxWaiting\""));
}

}  // namespace
}  // namespace warmroute::test
