#pragma once
// Score: 100 for pods whose name ends with a configured suffix, 0 for the others.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Error: `suffix` is not a string.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_prefer_pod(const Args& args, Host& host);

}  // namespace warmroute::plugins
