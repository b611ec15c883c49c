#pragma once
// Filter: pods whose engine queue is full. Score: fewer requests in flight is better.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Bad arguments are logged and replaced by the default; never an error.
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_least_request(const Args& args, Host& host);

}  // namespace warmroute::plugins
