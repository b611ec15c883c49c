#pragma once
// Step: prefill/decode pairs (data-plane spec 5.4): the best five decode pods of groups that can prefill, and for each
// the best prefill pods of its group. The pipeline runs in separate passes for the roles, over one set of States, so
// that a prompt is hashed once. Synchronous; used by all workers at once.

#include <array>
#include <span>

#include "model/pd_groups.hpp"
#include "schedule/pipeline.hpp"

namespace warmroute::schedule {

struct PairDecision {
  enum class End : std::uint8_t {
    paired,
    no_decode,  ///< no pod plays the role
    filtered,   ///< `filtered_by` removed the last decode pod
    no_pair     ///< no group has both, or its prefill pods were filtered out
  };
  End end = End::no_pair;
  std::string_view filtered_by;
  bool limited = false;   ///< not paired, and an InFlightLimit is among the reasons: there may be a pair later
  std::size_t count = 0;  ///< of `decode`; above 0 when paired
  std::array<Candidate, candidate_limit> decode{};    ///< best first
  std::array<std::uint8_t, candidate_limit> group{};  ///< of decode[i]: index into `prefill`
  std::array<Decision, candidate_limit> prefill{};    ///< best first; never empty for a group that is named
};

/// All indices of the decision are into `pods`, as those of `groups` are.
[[nodiscard]] PairDecision run_pairs(const Pipeline& pipeline, const RequestView& request, States& states,
                                     std::span<const PodView> pods, std::span<const model::PdGroupPods> groups);

}  // namespace warmroute::schedule
