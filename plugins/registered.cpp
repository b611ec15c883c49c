// Every plugin of this build, one line each.
#include "warmroute/plugin_registry.hpp"

namespace warmroute {

void register_plugins(Registry& registry) { (void)registry; }

}  // namespace warmroute
