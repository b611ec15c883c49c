#pragma once
// Step: filters in order, scores times weights, the best five (spec 5.2, decisions 3.10 and 3.14). Synchronous;
// used by all workers at once. Previous step: proxy/pick.cpp, next: proxy/attempt.cpp.

#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "warmroute/plugin.hpp"

namespace warmroute::schedule {

inline constexpr std::size_t candidate_limit = 5;

struct Candidate {
  std::uint32_t index = 0;  ///< into the pods given to run()
  std::int64_t total = 0;
};

struct Decision {
  std::array<Candidate, candidate_limit> candidates{};
  std::size_t count = 0;         ///< 0: every pod was filtered out (or none was given, or eligible)
  std::string_view filtered_by;  ///< the filter that removed the last pod
  bool limited = false;          ///< an InFlightLimit removed a pod: it may be free later
};

/// One RequestState per plugin; owned by the request.
using States = std::vector<std::unique_ptr<RequestState>>;

/// Where the pipeline reports how long each plugin took. Implemented over metrics; must not block.
class Timing {
 public:
  enum class Role : std::uint8_t { filter, score };
  virtual ~Timing() = default;
  virtual void plugin_took(std::string_view model, std::string_view plugin, Role role, double seconds) noexcept = 0;
};

class Pipeline {
 public:
  struct Scorer {
    std::shared_ptr<Plugin> plugin;
    std::int64_t weight = 1;
  };
  /// Plugins in order; an object in several roles appears in both lists. `timing` outlives the pipeline, may be null.
  Pipeline(const std::vector<std::shared_ptr<Plugin>>& filters, const std::vector<Scorer>& scorers, Timing* timing);

  [[nodiscard]] States new_states() const;
  /// \param eligible empty, or one per pod: one that is 0 is filtered and scored with the others, but is no candidate.
  /// \param pods_version as RequestView::pods_version, for the pods as given.
  [[nodiscard]] Decision run(const RequestView& request, States& states, std::span<const PodView> pods,
                             std::span<const std::uint8_t> eligible = {}, std::uint64_t pods_version = 0) const;
  /// For the few plugins that follow attempts; a branch where there are none.
  void attempt_started(const RequestView& request, States& states, PodId pod) const noexcept;
  void first_byte(const RequestView& request, States& states, PodId pod) const noexcept;
  void attempt_done(const RequestView& request, States& states, PodId pod, const Outcome& outcome) const noexcept;
  /// What the score plugins say about their scores: name and explanation of those that explain anything.
  [[nodiscard]] Value::Map explain(const RequestView& request, std::span<const PodView> pods) const;
  [[nodiscard]] std::size_t prompt_bytes_wanted() const noexcept;
  /// The most that a plugin knows the pod to hold of the prompt, in bytes; 0 without such a plugin.
  [[nodiscard]] std::size_t held_bytes(const RequestView& request, States& states, PodId pod) const;
  [[nodiscard]] bool knows_prefixes() const noexcept { return !knowers_.empty(); }
  [[nodiscard]] bool has_scorers() const noexcept;
  /// The lowest of all InFlightLimits; no_limit where there is none.
  [[nodiscard]] std::int64_t in_flight_limit() const noexcept { return in_flight_limit_; }
  static constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();

 private:
  struct Scratch;
  /// A plugin in one role; `state` is its place in States.
  template <class Role>
  struct Slot {
    Role* plugin = nullptr;
    std::size_t state = 0;
    std::int64_t weight = 1;
    bool limits = false;  ///< an InFlightLimit
  };

  std::size_t add(const std::shared_ptr<Plugin>& plugin);
  [[nodiscard]] bool filter(const RequestView& request, States& states, Scratch& scratch, Decision& decision) const;
  void score(const RequestView& request, States& states, Scratch& scratch) const;

  std::vector<std::shared_ptr<Plugin>> plugins_;  ///< each object once
  std::vector<Slot<FilterPlugin>> filters_;
  std::vector<Slot<ScorePlugin>> scorers_;
  std::vector<Slot<PostRequest>> hooks_;
  std::vector<Slot<PostRequest>> followers_;  ///< those of hooks_ that follow attempts
  std::vector<Slot<KnowsPrefix>> knowers_;
  Timing* timing_ = nullptr;
  std::int64_t in_flight_limit_ = no_limit;
};

}  // namespace warmroute::schedule
