#include "schedule/pipeline.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <utility>

#include "base/log.hpp"
#include "base/rng.hpp"

namespace warmroute::schedule {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

std::int64_t limit_of_sign(bool negative) noexcept {
  return negative ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

/// total + score * weight, stopping at the limits of int64 instead of wrapping round.
std::int64_t add_weighted(std::int64_t total, std::int64_t score, std::int64_t weight) noexcept {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(score, weight, &product)) product = limit_of_sign((score < 0) != (weight < 0));
  std::int64_t sum = 0;
  if (__builtin_add_overflow(total, product, &sum)) sum = limit_of_sign(product < 0);
  return sum;
}

/// A tie key per pod out of one draw per request (the finalizer of splitmix64).
std::uint64_t tie_key(std::uint64_t draw, std::uint64_t index) noexcept {
  std::uint64_t mixed = draw + (index + 1) * 0x9e3779b97f4a7c15U;
  mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
  mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
  return mixed ^ (mixed >> 31U);
}

/// Measures plugin after plugin with one clock reading each.
class Stopwatch {
 public:
  Stopwatch(Timing* timing, std::string_view model) : timing_(timing), model_(model) {
    if (timing_ != nullptr) last_ = std::chrono::steady_clock::now();
  }
  void lap(std::string_view plugin, Timing::Role role) noexcept {
    if (timing_ == nullptr) return;
    const TimePoint now = std::chrono::steady_clock::now();
    timing_->plugin_took(model_, plugin, role, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }

 private:
  Timing* timing_;
  std::string_view model_;
  TimePoint last_;
};

}  // namespace

/// Buffers of one worker, kept between requests. The pods that are still in the race: `pods`, and where each
/// stands in the caller's list. Nothing is copied before a filter removes a pod.
struct Pipeline::Scratch {
  std::span<const PodView> pods;
  std::vector<PodView> kept;
  std::vector<std::uint32_t> origin;
  std::unique_ptr<bool[]> keep;
  std::size_t keep_size = 0;
  std::vector<std::int64_t> scores, totals;

  void start(std::span<const PodView> given) {
    pods = given;
    origin.resize(given.size());
    for (std::uint32_t i = 0; i < origin.size(); ++i) origin[i] = i;
  }

  std::span<bool> all_kept() {
    if (keep_size < pods.size()) {
      keep = std::make_unique<bool[]>(pods.size());
      keep_size = pods.size();
    }
    std::fill_n(keep.get(), pods.size(), true);
    return {keep.get(), pods.size()};
  }

  /// Drops the pods whose flag is cleared; order stays. False: none was.
  bool compact(std::span<const bool> flags) {
    if (std::find(flags.begin(), flags.end(), false) == flags.end()) return false;
    if (pods.data() != kept.data()) kept.assign(pods.begin(), pods.end());
    std::size_t out = 0;
    for (std::size_t i = 0; i < flags.size(); ++i) {
      if (!flags[i]) continue;
      kept[out] = kept[i];
      origin[out++] = origin[i];
    }
    pods = std::span<const PodView>(kept.data(), out);
    return true;
  }
};

namespace {

void log_filter(std::string_view name, std::span<const PodView> pods, std::span<const bool> keep) {
  std::string text = fmt::format("FilterPlugin: {}", name);
  for (std::size_t i = 0; i < pods.size(); ++i)
    fmt::format_to(std::back_inserter(text), "\nPod: {}, {}", pods[i].name, keep[i] ? "kept" : "filtered out");
  log::write(log::Level::info, text);
}

void log_scores(std::string_view name, std::span<const PodView> pods, std::span<const std::int64_t> scores) {
  std::string text = fmt::format("ScorePlugin: {}", name);
  for (std::size_t i = 0; i < scores.size(); ++i)
    fmt::format_to(std::back_inserter(text), "\nPod: {}, Score: {}", pods[i].name, scores[i]);
  log::write(log::Level::info, text);
}

}  // namespace

Pipeline::Pipeline(const std::vector<std::shared_ptr<Plugin>>& filters, const std::vector<Scorer>& scorers,
                   Timing* timing)
    : timing_(timing) {
  for (const auto& plugin : filters) {
    auto* role = dynamic_cast<FilterPlugin*>(plugin.get());
    if (role == nullptr) throw std::logic_error("not a filter plugin");
    const auto* limit = dynamic_cast<InFlightLimit*>(plugin.get());
    if (limit != nullptr) in_flight_limit_ = std::min(in_flight_limit_, limit->max_in_flight());
    filters_.push_back({role, add(plugin), 1, limit != nullptr});
  }
  for (const auto& [plugin, weight] : scorers) {
    auto* role = dynamic_cast<ScorePlugin*>(plugin.get());
    if (role == nullptr) throw std::logic_error("not a score plugin");
    scorers_.push_back({role, add(plugin), weight, false});
  }
  for (std::size_t i = 0; i < plugins_.size(); ++i) {
    if (auto* role = dynamic_cast<PostRequest*>(plugins_[i].get())) hooks_.push_back({role, i, 1, false});
    if (auto* role = dynamic_cast<KnowsPrefix*>(plugins_[i].get())) knowers_.push_back({role, i, 1, false});
  }
  for (const auto& slot : hooks_)
    if (slot.plugin->follows_attempts()) followers_.push_back(slot);
}

std::size_t Pipeline::add(const std::shared_ptr<Plugin>& plugin) {
  const auto found = std::find(plugins_.begin(), plugins_.end(), plugin);
  if (found != plugins_.end()) return static_cast<std::size_t>(found - plugins_.begin());
  plugins_.push_back(plugin);
  return plugins_.size() - 1;
}

States Pipeline::new_states() const {
  States states;
  states.reserve(plugins_.size());
  for (const auto& plugin : plugins_) states.push_back(plugin->new_state());
  return states;
}

bool Pipeline::filter(const RequestView& request, States& states, Scratch& scratch, Decision& decision) const {
  Stopwatch watch(timing_, request.model);
  for (const auto& slot : filters_) {
    const std::span<bool> keep = scratch.all_kept();
    slot.plugin->filter(request, states[slot.state].get(), scratch.pods, keep);
    watch.lap(slot.plugin->name(), Timing::Role::filter);
    if (log::verbose(4)) log_filter(slot.plugin->name(), scratch.pods, keep);
    if (scratch.compact(keep) && slot.limits) decision.limited = true;
    if (scratch.pods.empty()) {
      decision.filtered_by = slot.plugin->name();
      return false;
    }
  }
  return true;
}

void Pipeline::score(const RequestView& request, States& states, Scratch& scratch) const {
  const std::size_t count = scratch.pods.size();
  scratch.totals.assign(count, 0);
  Stopwatch watch(timing_, request.model);
  for (const auto& slot : scorers_) {
    scratch.scores.assign(count, 0);
    const bool scored = slot.plugin->score(request, states[slot.state].get(), scratch.pods, scratch.scores);
    watch.lap(slot.plugin->name(), Timing::Role::score);
    if (log::verbose(4)) {
      const std::span<const std::int64_t> shown(scratch.scores.data(), scored ? count : 0);
      log_scores(slot.plugin->name(), scratch.pods, shown);
    }
    if (!scored) continue;
    for (std::size_t i = 0; i < count; ++i)
      scratch.totals[i] = add_weighted(scratch.totals[i], scratch.scores[i], slot.weight);
  }
}

Decision Pipeline::run(const RequestView& request, States& states, std::span<const PodView> pods,
                       std::span<const std::uint8_t> eligible, std::uint64_t pods_version) const {
  thread_local Scratch scratch;
  Decision decision;
  if (pods.empty()) return decision;
  scratch.start(pods);
  if (!filter(request, states, scratch, decision)) return decision;
  RequestView scored = request;
  scored.pods_version = scratch.pods.size() == pods.size() ? pods_version : 0;
  score(scored, states, scratch);

  // Insertion into a list of five: cheaper than a heap, and one pass for any number of pods.
  std::array<std::uint64_t, candidate_limit> keys{};
  const std::uint64_t draw = base::random64();
  for (std::size_t i = 0; i < scratch.pods.size(); ++i) {
    const Candidate entry{scratch.origin[i], scratch.totals[i]};
    if (!eligible.empty() && eligible[entry.index] == 0) continue;
    const std::uint64_t key = tie_key(draw, i);
    std::size_t place = decision.count;
    while (place > 0) {
      const Candidate& above = decision.candidates[place - 1];
      if (std::pair(above.total, keys[place - 1]) >= std::pair(entry.total, key)) break;
      --place;
    }
    if (place >= candidate_limit) continue;
    if (decision.count < candidate_limit) ++decision.count;
    for (std::size_t down = decision.count - 1; down > place; --down) {
      decision.candidates[down] = decision.candidates[down - 1];
      keys[down] = keys[down - 1];
    }
    decision.candidates[place] = entry;
    keys[place] = key;
  }
  return decision;
}

void Pipeline::attempt_done(const RequestView& request, States& states, PodId pod,
                            const Outcome& outcome) const noexcept {
  for (const auto& slot : hooks_) slot.plugin->attempt_done(request, states[slot.state].get(), pod, outcome);
}

void Pipeline::attempt_started(const RequestView& request, States& states, PodId pod) const noexcept {
  for (const auto& slot : followers_) slot.plugin->attempt_started(request, states[slot.state].get(), pod);
}

void Pipeline::first_byte(const RequestView& request, States& states, PodId pod) const noexcept {
  for (const auto& slot : followers_) slot.plugin->first_byte(request, states[slot.state].get(), pod);
}

Value::Map Pipeline::explain(const RequestView& request, std::span<const PodView> pods) const {
  Value::Map said;
  for (const auto& slot : scorers_) {
    Value value = slot.plugin->explain(request, pods);
    if (!value.is_null()) said.emplace_back(slot.plugin->name(), std::move(value));
  }
  return said;
}

std::size_t Pipeline::prompt_bytes_wanted() const noexcept {
  std::size_t wanted = 0;
  for (const auto& plugin : plugins_) wanted = std::max(wanted, plugin->prompt_bytes_wanted());
  return wanted;
}

std::size_t Pipeline::held_bytes(const RequestView& request, States& states, PodId pod) const {
  std::size_t held = 0;
  for (const auto& slot : knowers_)
    held = std::max(held, slot.plugin->held_bytes(request, states[slot.state].get(), pod));
  return held;
}

bool Pipeline::has_scorers() const noexcept { return !scorers_.empty(); }

}  // namespace warmroute::schedule
