#include "proxy/pd_pick.hpp"

#include <algorithm>

#include "base/rng.hpp"

namespace warmroute::proxy {

namespace {

/// The groups without the pods whose breaker admits nothing now. \return false: no pod was left out, `out` is not used.
bool without_failing(const Shared& shared, const model::ServerEntry& server,
                     std::optional<net::Clock::time_point> as_of, std::vector<model::PdGroupPods>& out) {
  if (!shared.settings.breaker.enabled()) return false;
  const auto failing = [&](std::uint32_t index) { return !breaker_admits(shared, *server.pods[index].record, as_of); };
  bool any = false;
  for (const auto& group : server.groups) {
    model::PdGroupPods kept;
    const auto keep = [&](const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to) {
      for (const auto index : from) {
        if (failing(index)) {
          any = true;
        } else {
          to.push_back(index);
        }
      }
    };
    keep(group.prefill, kept.prefill);
    keep(group.decode, kept.decode);
    out.push_back(std::move(kept));
  }
  return any;
}

}  // namespace

PairPlan::PairPlan(Exchange& exchange, const model::ServerEntry& server, bool may_skip_prefill,
                   std::optional<net::Clock::time_point> as_of)
    : exchange_(exchange), server_(server), may_skip_prefill_(may_skip_prefill), as_of_(as_of) {
  constexpr int tries_unchanged = 3, tries = 16;
  for (int i = 0; i < tries; ++i) {
    if (i + 1 == tries) forced_ = true;  // others took every probe's place
    decide();
    first_ = choose();
    if (!first_) return;
    // Another worker may have chosen the same pods meanwhile: then the scores are old.
    const bool unchanged = i < tries_unchanged;
    if (reserve(first_->decode, unchanged) && (!first_->prefill || reserve(*first_->prefill, unchanged))) return;
    first_.reset();
    at_ = 0;
  }
  // Many others were quicker each time.
  decision_ = {};
  decision_.limited = exchange.shared.pipeline->in_flight_limit() != schedule::Pipeline::no_limit;
}

void PairPlan::decide() {
  auto& pods = exchange_.session.context().scratch.pods;
  const auto& shared = exchange_.shared;
  const auto now = model::Clock::now();
  pods.clear();
  for (const auto& entry : server_.pods) pods.push_back(view_of(entry, now, shared.settings));
  const auto run = [&](std::span<const model::PdGroupPods> groups) {
    decision_ = schedule::run_pairs(*shared.pipeline, exchange_.view(), exchange_.states, pods, groups);
    return decision_.end == schedule::PairDecision::End::paired;
  };
  std::vector<model::PdGroupPods> good;
  const bool some_fail = !forced_ && without_failing(shared, server_, as_of_, good);
  // Pods that are only busy are worth waiting for.
  if (some_fail && (run(good) || decision_.limited)) return;
  forced_ = forced_ || some_fail;  // a failing pod is better than none
  (void)run(server_.groups);
}

bool PairPlan::reserve(Reserved& pod, bool unchanged) const {
  const auto& record = server_.pods[pod.index].record;
  const auto& pods = exchange_.session.context().scratch.pods;
  pod.guard = unchanged ? model::InFlightGuard::take_if_unchanged(record, pods[pod.index].in_flight)
                        : model::InFlightGuard::take_below(record, exchange_.shared.pipeline->in_flight_limit());
  if (!pod.guard.pod()) return false;
  auto pass = BreakerPass::enter(exchange_.shared, record, forced_);
  if (pass) {
    pod.pass = std::move(*pass);
  } else {
    pod.guard.release();
  }
  return pass.has_value();
}

std::optional<Pair> PairPlan::choose() {
  for (; at_ < decision_.count; ++at_) {
    Pair pair;
    pair.decode.index = decision_.decode[at_].index;
    if (holds_prompt(pair.decode.index)) return pair;
    const auto& ranking = decision_.prefill[decision_.group[at_]];
    for (std::size_t i = 0; i < ranking.count; ++i) {
      const auto prefill = ranking.candidates[i].index;
      if (std::find(failed_.begin(), failed_.end(), prefill) != failed_.end()) continue;
      pair.prefill.emplace();
      pair.prefill->index = prefill;
      return pair;
    }
  }
  return std::nullopt;
}

std::optional<Pair> PairPlan::next() {
  std::optional<Pair> pair = std::exchange(first_, std::nullopt);
  while (!pair) {
    pair = choose();
    if (!pair) return pair;
    asked_.reset();
    if (pair->prefill && !reserve(*pair->prefill, false)) {
      failed_.push_back(pair->prefill->index);
      pair.reset();
    } else if (!reserve(pair->decode, false)) {
      ++at_;
      pair.reset();
    }
  }
  asked_ = pair->prefill ? std::optional(pair->prefill->index) : std::nullopt;
  return pair;
}

void PairPlan::prefill_failed() {
  if (asked_) failed_.push_back(*asked_);
}

// What the decode pod would have to compute itself is at most the threshold.
bool PairPlan::holds_prompt(std::uint32_t decode) const {
  const auto threshold = exchange_.shared.settings.pd_threshold_tokens;
  const auto prompt = exchange_.inspection.prompt.size();
  if (threshold == 0 || !may_skip_prefill_ || prompt == 0) return false;
  const auto& pipeline = *exchange_.shared.pipeline;
  const auto held = pipeline.held_bytes(exchange_.view(), exchange_.states, server_.pods[decode].record->id());
  // A prompt that was not rendered to its end is at most as long as the body; rather too many tokens than too few.
  const bool whole = prompt < pipeline.prompt_bytes_wanted();
  const auto total = static_cast<double>(whole ? prompt : exchange_.readable_body().size());
  const double missing =
      static_cast<double>(exchange_.record.input_tokens) * (1 - std::min(1.0, static_cast<double>(held) / total));
  return missing <= static_cast<double>(threshold);
}

}  // namespace warmroute::proxy
