#include "app/start_config.hpp"

#include <fstream>
#include <sstream>

namespace warmroute::app {

StartConfig load_start_config(const Options& options) {
  StartConfig start;
  if (!options.config && !options.resources.empty()) {
    start.text = config::default_router_config();
    start.outcome = config::parse_router_config(start.text, "default configuration");
    return start;
  }
  start.path = options.config.value_or("/etc/config/routerConfiguration.yaml");
  start.outcome = config::load_router_config(start.path);
  std::ifstream file(start.path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  start.text = std::move(text).str();
  if (start.outcome.config)
    start.outcome.config->pipeline.skip_unknown =
        options.compat_given ? options.compat_kthena : start.outcome.config->compat_kthena;
  return start;
}

}  // namespace warmroute::app
