#pragma once
// Score: a random number. For comparisons; not to be combined with other score plugins.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Takes no arguments; never an error.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_random(const Args& args, Host& host);

}  // namespace warmroute::plugins
