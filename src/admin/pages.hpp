#pragma once
// What the metrics and debug listeners answer (spec 19). Pure functions of what they are given.

#include <functional>
#include <string_view>

#include "admin/http_server.hpp"
#include "metrics/registry.hpp"
#include "model/store.hpp"

namespace warmroute::admin {

/// "/metrics"; anything else 404.
[[nodiscard]] Page metrics_page(metrics::Registry& registry, std::string_view target);
/// "/debug/config_dump/..." in standalone mode: modelroutes, modelservers, pods; the kinds of later features answer
/// as empty lists.
/// /debug/config_dump/..., and /debug/pods: what this process knows of each pod beside its resource.
[[nodiscard]] Page debug_page(const model::Store& store, std::string_view target,
                              const model::BreakerPolicy& breaker = {});

}  // namespace warmroute::admin
