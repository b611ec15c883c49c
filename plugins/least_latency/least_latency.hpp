#pragma once
// Score: pods with lower measured latency are better.

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// Error: TTFTTPOTWeightFactor is not a finite number between 0 and 1 (golden and seed: this stops the start).
[[nodiscard]] Result<std::shared_ptr<Plugin>> make_least_latency(const Args& args, Host& host);

}  // namespace warmroute::plugins
