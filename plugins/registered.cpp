// Every plugin of this build, one line each.
#include "gpu_usage/gpu_usage.hpp"
#include "least_latency/least_latency.hpp"
#include "least_request/least_request.hpp"
#include "lora_affinity/lora_affinity.hpp"
#include "max_in_flight/max_in_flight.hpp"
#include "prefix_cache/prefix_cache.hpp"
#include "random/random.hpp"
#include "warmroute/plugin_registry.hpp"

namespace warmroute {

void register_plugins(Registry& registry) {
  registry.add("gpu-usage", &plugins::make_gpu_usage);
  registry.add("least-latency", &plugins::make_least_latency);
  registry.add("least-request", &plugins::make_least_request);
  registry.add("lora-affinity", &plugins::make_lora_affinity);
  registry.add("max-in-flight", &plugins::make_max_in_flight);
  registry.add("prefix-cache", &plugins::make_prefix_cache);
  registry.add("random", &plugins::make_random);
}

}  // namespace warmroute
