#pragma once
// Score: pods that served the longest prefix of the prompt are better. Remembers who served what.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Bad arguments are logged and replaced by defaults; never an error.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_prefix_cache(const Args& args, Host& host);

}  // namespace warmroute::plugins
