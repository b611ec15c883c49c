#pragma once
// Filter: pods that have the requested model or adapter loaded.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Takes no arguments; never an error.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_lora_affinity(const Args& args, Host& host);

}  // namespace warmroute::plugins
