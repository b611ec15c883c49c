#pragma once
// Whether Kubernetes accepts labels as a selector, and its words when it does not.

#include <optional>
#include <string>
#include <string_view>

#include "model/resources.hpp"

namespace warmroute::webhook {

/// The API machinery's complaint about the first pair (in key order) that cannot select, e.g.
/// `key: Invalid value: "a b": name part must consist of ...`. nullopt: all are fine.
[[nodiscard]] std::optional<std::string> selector_problem(const model::Labels& labels);

}  // namespace warmroute::webhook
