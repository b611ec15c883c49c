#pragma once
// Filter: pods to which this router has as many requests open as it may.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Bad arguments stop the start: a limit protects engines, so it is never guessed.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_max_in_flight(const Args& args, Host& host);

}  // namespace warmroute::plugins
