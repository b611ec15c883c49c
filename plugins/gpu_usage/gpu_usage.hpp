#pragma once
// Score: pods with more free KV cache are better.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Takes no arguments; never an error.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_gpu_usage(const Args& args, Host& host);

}  // namespace warmroute::plugins
