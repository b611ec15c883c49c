#pragma once
// routerConfiguration.yaml (spec 1.3, the seed's Configuration chapter, decisions 2).

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostic.hpp"
#include "schedule/build.hpp"
#include "warmroute/result.hpp"

namespace warmroute::config {

struct RouterConfig {
  schedule::PipelineConfig pipeline;
  std::string issuer, jwks_uri;
  std::vector<std::string> audiences;
  bool compat_kthena = false;  ///< top-level `compat: kthena`
};

struct RouterConfigOutcome {
  std::optional<RouterConfig> config;  ///< empty: `error` says why the start must stop
  std::string error;      ///< whole message with the prefixes of spec 1.3 and the seed, e.g.
                          ///< failed to Load Scheduler: failed to Unmarshal Plugins: score plugin "x" must set ...
  Diagnostics diagnostics;  ///< the same and all warnings, with places, for the log and --check
};

[[nodiscard]] RouterConfigOutcome parse_router_config(std::string_view text, const std::string& file_name);
[[nodiscard]] RouterConfigOutcome load_router_config(const std::string& path);
/// The chart's default (decisions 2), used with --resources and no --config.
[[nodiscard]] std::string_view default_router_config() noexcept;

}  // namespace warmroute::config
