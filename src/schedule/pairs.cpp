#include "schedule/pairs.hpp"

#include <algorithm>

namespace warmroute::schedule {
namespace {

/// What is known of one group in the course of a decision.
struct GroupState {
  bool asked = false;  ///< `prefill` is there
  Decision prefill;
};

/// Buffers of one worker, kept between requests.
struct Scratch {
  std::vector<PodView> views;          ///< of one pass
  std::vector<std::uint32_t> origin;   ///< where each stands in the caller's list
  std::vector<std::uint32_t> group;    ///< of each decode pod
  std::vector<std::uint8_t> eligible;  ///< decode pods whose group may have a prefill pod
  std::vector<PodView> prefill_views;
  std::vector<GroupState> groups;
};

class Pairing {
 public:
  Pairing(const Pipeline& pipeline, const RequestView& request, States& states, std::span<const PodView> pods,
          std::span<const model::PdGroupPods> groups)
      : pipeline_(pipeline), request_(request), states_(states), pods_(pods), groups_(groups) {
    scratch_.groups.assign(groups.size(), {});
    scratch_.views.clear();
    scratch_.origin.clear();
    scratch_.group.clear();
    for (std::uint32_t g = 0; g < groups.size(); ++g) {
      for (const auto i : groups[g].decode) {
        scratch_.views.push_back(pods[i]);
        scratch_.origin.push_back(i);
        scratch_.group.push_back(g);
      }
    }
  }

  PairDecision run() {
    PairDecision result;
    if (scratch_.views.empty()) result.end = PairDecision::End::no_decode;
    // Again without the groups whose prefill pods were all filtered out, when other pods can take their places.
    for (bool again = !scratch_.views.empty(); again;) {
      const auto eligible = mark_eligible();
      const bool others = eligible > candidate_limit;
      const Decision decode = pipeline_.run(request_, states_, scratch_.views, scratch_.eligible);
      if (decode.count == 0 && !decode.filtered_by.empty()) {
        result.end = PairDecision::End::filtered;
        result.filtered_by = decode.filtered_by;
      }
      again = !choose_prefill(decode) && others;
      if (again) continue;
      collect(decode, result);
      result.limited = result.count == 0 && ((eligible > 0 && decode.limited) || prefill_limited());
    }
    return result;
  }

 private:
  [[nodiscard]] bool barren(std::uint32_t group) const {
    const auto& state = scratch_.groups[group];
    return groups_[group].prefill.empty() || (state.asked && state.prefill.count == 0);
  }

  [[nodiscard]] bool prefill_limited() const {
    return std::any_of(scratch_.groups.begin(), scratch_.groups.end(),
                       [](const GroupState& state) { return state.asked && state.prefill.limited; });
  }

  std::size_t mark_eligible() {
    scratch_.eligible.assign(scratch_.views.size(), 0);
    std::size_t count = 0;
    for (std::size_t i = 0; i < scratch_.views.size(); ++i) {
      if (barren(scratch_.group[i])) continue;
      scratch_.eligible[i] = 1;
      ++count;
    }
    return count;
  }

  /// \return false: a group of a candidate turned out to have no prefill pod for this request.
  bool choose_prefill(const Decision& decode) {
    bool all = true;
    for (std::size_t i = 0; i < decode.count; ++i) {
      const auto group = scratch_.group[decode.candidates[i].index];
      auto& state = scratch_.groups[group];
      if (!state.asked) {
        state.asked = true;
        scratch_.prefill_views.clear();
        for (const auto pod : groups_[group].prefill) scratch_.prefill_views.push_back(pods_[pod]);
        state.prefill = pipeline_.run(request_, states_, scratch_.prefill_views);
        for (std::size_t k = 0; k < state.prefill.count; ++k)
          state.prefill.candidates[k].index = groups_[group].prefill[state.prefill.candidates[k].index];
      }
      all = all && state.prefill.count > 0;
    }
    return all;
  }

  void collect(const Decision& decode, PairDecision& result) {
    std::array<std::uint32_t, candidate_limit> named{};
    std::uint8_t names = 0;
    for (std::size_t i = 0; i < decode.count; ++i) {
      const auto group = scratch_.group[decode.candidates[i].index];
      if (barren(group)) continue;
      const auto end = named.begin() + names;
      const auto found = std::find(named.begin(), end, group);
      if (found == end) {
        named[names] = group;
        result.prefill[names++] = scratch_.groups[group].prefill;
      }
      result.group[result.count] = static_cast<std::uint8_t>(found - named.begin());
      result.decode[result.count] = decode.candidates[i];
      result.decode[result.count++].index = scratch_.origin[decode.candidates[i].index];
    }
    if (result.count > 0) result.end = PairDecision::End::paired;
  }

  const Pipeline& pipeline_;
  const RequestView& request_;
  States& states_;
  std::span<const PodView> pods_;
  std::span<const model::PdGroupPods> groups_;
  static thread_local Scratch scratch_;
};

thread_local Scratch Pairing::scratch_;

}  // namespace

PairDecision run_pairs(const Pipeline& pipeline, const RequestView& request, States& states,
                       std::span<const PodView> pods, std::span<const model::PdGroupPods> groups) {
  return Pairing(pipeline, request, states, pods, groups).run();
}

}  // namespace warmroute::schedule
