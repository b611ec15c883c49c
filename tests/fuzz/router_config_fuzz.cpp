// libFuzzer: any text as routerConfiguration.yaml. Nothing may crash, and the outcome must be one of two.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/router_config.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto outcome = warmroute::config::parse_router_config(text, "fuzz.yaml");
  if (outcome.config.has_value() != outcome.error.empty()) std::abort();
  if (warmroute::config::has_errors(outcome.diagnostics) != !outcome.config.has_value()) std::abort();
  if (outcome.config) {
    for (const auto& score : outcome.config->pipeline.scores) {
      if (score.weight <= 0) std::abort();
    }
  }
  for (const auto& diagnostic : outcome.diagnostics) (void)diagnostic.text();
  return 0;
}
