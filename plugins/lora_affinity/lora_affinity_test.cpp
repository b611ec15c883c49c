#include "lora_affinity/lora_affinity.hpp"

#include "support/plugin_runner.hpp"

namespace warmroute::test {
namespace {

TEST_CASE("lora-affinity: keeps the pods whose last list names the model") {
  FakeHost host;
  const auto plugin = make_plugin(plugins::make_lora_affinity, host);
  const std::vector<std::string> both{"base", "adapter-1"}, base{"base"}, empty_name{""};
  std::vector<PodView> pods(4);
  pods[0].loaded_models = both;
  pods[1].loaded_models = base;
  pods[2].loaded_models = empty_name;
  RequestView request;
  request.model = "adapter-1";
  CHECK(kept_by(*plugin, pods, request) == std::vector<bool>{true, false, false, false});
  request.model = "";
  CHECK(kept_by(*plugin, pods, request) == std::vector<bool>{false, false, true, false});
  request.model = "adapter";
  CHECK(kept_by(*plugin, pods, request) == std::vector<bool>{false, false, false, false});
}

}  // namespace
}  // namespace warmroute::test
