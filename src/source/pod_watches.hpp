#pragma once
// Which lists of Pods the ModelServers need: as few as select all of their pods. Pure.

#include <compare>
#include <string>
#include <vector>

#include "model/resources.hpp"

namespace warmroute::source {

struct PodSelection {
  std::string ns;
  model::Labels labels;
  friend auto operator<=>(const PodSelection&, const PodSelection&) = default;
  /// "a=b,c=d", as a label selector has it.
  [[nodiscard]] std::string selector() const;
};

/// Sorted, each once; a selection that another one holds already (the same namespace, fewer labels) is left out.
[[nodiscard]] std::vector<PodSelection> pod_selections(const std::vector<model::ModelServer>& servers);

}  // namespace warmroute::source
