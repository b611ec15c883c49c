#pragma once
// Which routerConfiguration.yaml the start uses.

#include <string>

#include "app/options.hpp"
#include "config/router_config.hpp"

namespace warmroute::app {

struct StartConfig {
  config::RouterConfigOutcome outcome;
  std::string path;  ///< empty: the default configuration
  std::string text;
};

/// --config, else the fixed path of the container; with --resources and no --config, the chart's default.
[[nodiscard]] StartConfig load_start_config(const Options& options);

}  // namespace warmroute::app
