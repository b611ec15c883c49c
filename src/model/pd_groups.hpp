#pragma once
// Which role the pods of a ModelServer with a PD group play, and which of them belong together (control-plane spec
// 6.3). Computed anew from the labels at each change, so that a pod that was relabelled leaves nothing behind.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "model/resources.hpp"

namespace warmroute::model {

struct PodEntry;

enum class PdRole : std::uint8_t { none, prefill, decode };

/// The pods with one value of the group-key label, as indices into ServerEntry::pods.
struct PdGroupPods {
  std::string value;
  std::vector<std::uint32_t> prefill, decode;
  friend bool operator==(const PdGroupPods&, const PdGroupPods&) = default;
};

/// Decode labels are tested first; without a value of the group key, or with labels of neither role: none.
[[nodiscard]] PdRole pd_role(const PdGroup& spec, const Labels& labels);

/// Sets role and group of each entry. `labels[i]` belongs to `pods[i]`, null: none are known. \return the groups,
/// sorted by value; each has a member.
[[nodiscard]] std::vector<PdGroupPods> form_pd_groups(const PdGroup& spec, std::span<const Labels* const> labels,
                                                      std::vector<PodEntry>& pods);

}  // namespace warmroute::model
