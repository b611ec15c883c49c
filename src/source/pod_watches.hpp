#pragma once
// Which lists of Pods the ModelServers need: as few as select all of their pods and no others. Pure.

#include <compare>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/resources.hpp"

namespace warmroute::source {

struct PodSelection {
  std::string ns;
  std::map<std::string, std::set<std::string>> labels;  ///< each key with one of its values
  friend auto operator<=>(const PodSelection&, const PodSelection&) = default;
  /// "a=b,c in (d,e)", as the API server wants it.
  [[nodiscard]] std::string selector() const;
};

/// Up to so many selections of a namespace are followed one by one: then a ModelServer that comes or goes touches
/// nobody else's list.
inline constexpr std::size_t selections_apart = 8;
/// Values in one selection, so that its URL stays short.
inline constexpr std::size_t selection_values = 64;

/// Sorted, each once. One that another holds already (the same namespace, wider) is left out. Where a namespace has
/// many, those that differ in the value of one key are one.
[[nodiscard]] std::vector<PodSelection> pod_selections(const std::vector<model::ModelServer>& servers);

}  // namespace warmroute::source
