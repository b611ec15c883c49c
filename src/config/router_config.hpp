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
  /// `skip_unknown` is false; the caller sets it once it knows which --compat counts.
  schedule::PipelineConfig pipeline;
  std::string issuer, jwks_uri;
  std::vector<std::string> audiences;
  bool compat_kthena = false;  ///< top-level `compat: kthena`
  /// Top-level `pdThresholdTokens`: a decode pod that has to compute at most so many tokens works alone; 0: never.
  std::int64_t pd_threshold_tokens = 0;
};

struct RouterConfigOutcome {
  std::optional<RouterConfig> config;  ///< empty: `error` says why the start must stop
  /// The whole message, to be logged as it is. One of
  ///   failed to parse router config: failed to read config file PATH: open PATH: no such file or directory
  ///   failed to parse router config: failed to Unmarshal routerConfiguration: FILE:LINE:COLUMN: PATH: what is wrong
  ///   failed to parse router config: failed to Unmarshal routerConfiguration: plugin configuration must be a mapping
  ///   failed to parse router config: failed to Unmarshal routerConfiguration: decode plugin name: ...
  ///   failed to Load Scheduler: failed to Unmarshal Plugins: score plugin "x" must set a weight greater than 0, got 0
  ///   failed to Load Scheduler: failed to Unmarshal PluginsConfig: invalid least-latency plugin configuration: ...
  ///   NAME is not supported by this build           (NAME: auth or kvcache-aware)
  std::string error;
  /// Everything that was found, warnings too, with places, for the log and --check.
  Diagnostics diagnostics;
};

/// Pure. Only the first document is read. An empty text is a configuration without any plugin.
[[nodiscard]] RouterConfigOutcome parse_router_config(std::string_view text, const std::string& file_name);
/// Reads the file; blocks. Diagnostics name the file by its path.
[[nodiscard]] RouterConfigOutcome load_router_config(const std::string& path);
/// The chart's default, the text of config/routerConfiguration.yaml; used with --resources and no --config.
[[nodiscard]] std::string_view default_router_config() noexcept;

}  // namespace warmroute::config
