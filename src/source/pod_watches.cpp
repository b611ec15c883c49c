#include "source/pod_watches.hpp"

#include <algorithm>
#include <set>

namespace warmroute::source {
namespace {

bool holds(const PodSelection& wide, const PodSelection& narrow) {
  return wide.ns == narrow.ns &&
         std::includes(narrow.labels.begin(), narrow.labels.end(), wide.labels.begin(), wide.labels.end());
}

}  // namespace

std::string PodSelection::selector() const {
  std::string text;
  for (const auto& [key, value] : labels) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

std::vector<PodSelection> pod_selections(const std::vector<model::ModelServer>& servers) {
  std::set<PodSelection> all;
  for (const auto& server : servers) {
    if (!server.selector.empty()) all.insert({server.meta.ns, server.selector});
  }
  std::vector<PodSelection> out;
  for (const auto& each : all) {
    const bool held = std::any_of(all.begin(), all.end(),
                                  [&](const PodSelection& other) { return other != each && holds(other, each); });
    if (!held) out.push_back(each);
  }
  return out;
}

}  // namespace warmroute::source
