#include "source/pod_watches.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace warmroute::source {
namespace {

using Labels = std::map<std::string, std::set<std::string>>;

bool holds(const PodSelection& wide, const PodSelection& narrow) {
  if (wide.ns != narrow.ns) return false;
  return std::all_of(wide.labels.begin(), wide.labels.end(), [&](const auto& label) {
    const auto found = narrow.labels.find(label.first);
    return found != narrow.labels.end() &&
           std::includes(label.second.begin(), label.second.end(), found->second.begin(), found->second.end());
  });
}

std::vector<std::string> keys_of(const Labels& labels) {
  std::vector<std::string> keys;
  for (const auto& [key, values] : labels) keys.push_back(key);
  return keys;
}

/// The selections (of one namespace and with the same keys) as few, by the values of one key.
std::vector<PodSelection> merged_by(const std::vector<PodSelection>& all, const std::string& key) {
  std::map<Labels, std::set<std::string>> groups;
  for (const auto& each : all) {
    Labels rest = each.labels;
    const auto values = rest.extract(key);
    groups[rest].insert(values.mapped().begin(), values.mapped().end());
  }
  std::vector<PodSelection> out;
  for (const auto& [rest, values] : groups) {
    for (auto value = values.begin(); value != values.end();) {
      PodSelection part{all.front().ns, rest};
      auto& taken = part.labels[key];
      for (; value != values.end() && taken.size() < selection_values; ++value) taken.insert(*value);
      out.push_back(std::move(part));
    }
  }
  return out;
}

std::vector<PodSelection> merged(const std::vector<PodSelection>& all) {
  std::map<std::vector<std::string>, std::vector<PodSelection>> by_keys;
  for (const auto& each : all) by_keys[keys_of(each.labels)].push_back(each);
  std::vector<PodSelection> out;
  for (const auto& [keys, group] : by_keys) {
    std::vector<PodSelection> fewest = group;
    for (const auto& key : keys) {
      auto candidate = merged_by(group, key);
      if (candidate.size() < fewest.size()) fewest = std::move(candidate);
    }
    std::move(fewest.begin(), fewest.end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace

std::string PodSelection::selector() const {
  std::string text;
  for (const auto& [key, values] : labels) {
    text += (text.empty() ? "" : ",") + key;
    if (values.size() == 1) {
      text += "=" + *values.begin();
      continue;
    }
    const char* separator = " in (";
    for (const auto& value : values) text.append(std::exchange(separator, ",")).append(value);
    text += ")";
  }
  return text;
}

std::vector<PodSelection> pod_selections(const std::vector<model::ModelServer>& servers) {
  std::map<std::string, std::set<PodSelection>> namespaces;
  for (const auto& server : servers) {
    if (server.selector.empty()) continue;
    PodSelection selection{server.meta.ns, {}};
    for (const auto& [key, value] : server.selector) selection.labels[key] = {value};
    namespaces[server.meta.ns].insert(std::move(selection));
  }
  std::vector<PodSelection> out;
  for (const auto& [ns, all] : namespaces) {
    std::vector<PodSelection> kept;
    std::copy_if(all.begin(), all.end(), std::back_inserter(kept), [&](const PodSelection& each) {
      return std::none_of(all.begin(), all.end(),
                          [&](const PodSelection& other) { return other != each && holds(other, each); });
    });
    if (kept.size() > selections_apart) kept = merged(kept);
    std::move(kept.begin(), kept.end(), std::back_inserter(out));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace warmroute::source
