#include "model/pd_groups.hpp"

#include <map>

#include "model/label_index.hpp"
#include "model/snapshot.hpp"

namespace warmroute::model {

PdRole pd_role(const PdGroup& spec, const Labels& labels) {
  const auto group = labels.find(spec.group_key);
  if (group == labels.end() || group->second.empty()) return PdRole::none;
  if (selects(spec.decode_labels, labels)) return PdRole::decode;
  return selects(spec.prefill_labels, labels) ? PdRole::prefill : PdRole::none;
}

std::vector<PdGroupPods> form_pd_groups(const PdGroup& spec, std::span<const Labels* const> labels,
                                        std::vector<PodEntry>& pods) {
  std::map<std::string, PdGroupPods> by_value;
  for (std::uint32_t i = 0; i < pods.size(); ++i) {
    pods[i].role = labels[i] != nullptr ? pd_role(spec, *labels[i]) : PdRole::none;
    if (pods[i].role == PdRole::none) continue;
    auto& group = by_value[labels[i]->at(spec.group_key)];
    (pods[i].role == PdRole::decode ? group.decode : group.prefill).push_back(i);
  }
  std::vector<PdGroupPods> groups;
  groups.reserve(by_value.size());
  for (auto& [value, group] : by_value) {
    const auto number = static_cast<std::uint32_t>(groups.size());
    for (const auto i : group.prefill) pods[i].group = number;
    for (const auto i : group.decode) pods[i].group = number;
    group.value = value;
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace warmroute::model
