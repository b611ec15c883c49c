#pragma once
// Objects as the API server sends them (JSON) -> model objects, by the readers of the standalone documents.

#include <optional>
#include <string_view>

#include "config/diagnostic.hpp"
#include "model/resources.hpp"

namespace warmroute::config {

/// nullopt: `diagnostics` have an error that says what is wrong with the object, named "KIND NAMESPACE/NAME". The
/// resourceVersion is left out of what is returned, so that equal objects compare equal whatever their version.
[[nodiscard]] std::optional<model::ModelRoute> model_route_of(std::string_view json, Diagnostics& diagnostics);
[[nodiscard]] std::optional<model::ModelServer> model_server_of(std::string_view json, Diagnostics& diagnostics);
[[nodiscard]] std::optional<model::Pod> pod_of(std::string_view json, Diagnostics& diagnostics);

}  // namespace warmroute::config
