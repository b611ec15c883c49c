#include "proxy/pick.hpp"

#include <algorithm>
#include <cmath>

namespace warmroute::proxy {

PodView view_of(const model::PodEntry& entry, model::Clock::time_point now, const Settings& settings) {
  const auto& record = *entry.record;
  PodView view;
  view.id = record.id();
  view.name = record.key();
  view.in_flight = record.in_flight();
  view.load = record.fresh_sample(now, settings.sample_max_age);
  view.loaded_models = *entry.loaded_models;
  return view;
}

bool breaker_admits(const Shared& shared, const model::PodRecord& record, std::optional<net::Clock::time_point> as_of) {
  const auto& breaker = record.breaker();
  const auto& policy = shared.settings.breaker;
  if (!policy.enabled() || breaker.closed()) return true;
  if (as_of)
    return breaker.admits(
        policy, *as_of,
        static_cast<double>(record.in_flight()) / static_cast<double>(shared.pipeline->in_flight_limit()));
  // By the clock of BreakerPass::enter(): else a breaker could admit here what it refuses there.
  return breaker.admits(policy, net::coarse_now(), std::ldexp(static_cast<double>(base::random64() >> 11U), -53));
}

namespace {

// What plugins see of the pods that may serve the request. False: some were left out because of their breaker.
bool list_pods(Exchange& exchange, const model::ServerEntry& server, std::span<const PodId> tried, bool forced,
               std::optional<net::Clock::time_point> as_of) {
  auto& scratch = exchange.session.context().scratch;
  const auto now = model::Clock::now();
  const auto& settings = exchange.shared.settings;
  bool all = true;
  scratch.pods.clear();
  scratch.pod_numbers.clear();
  for (std::uint32_t i = 0; i < server.pods.size(); ++i) {
    const auto& entry = server.pods[i];
    const auto& record = *entry.record;
    if (!tried.empty() && std::find(tried.begin(), tried.end(), record.id()) != tried.end()) continue;
    if (!forced && !breaker_admits(exchange.shared, record, as_of)) {
      all = false;
      continue;
    }
    scratch.pods.push_back(view_of(entry, now, settings));
    scratch.pod_numbers.push_back(i);
  }
  return all;
}

}  // namespace

Pick pick(Exchange& exchange, const model::ServerEntry& server, std::span<const PodId> tried,
          std::optional<net::Clock::time_point> as_of) {
  const auto& pipeline = *exchange.shared.pipeline;
  auto& scratch = exchange.session.context().scratch;
  const auto limit = pipeline.in_flight_limit();
  Pick pick;
  constexpr int tries_unchanged = 3, tries = 16;
  for (int i = 0; i < tries; ++i) {
    if (i + 1 == tries) pick.forced = true;  // others took every probe's place: better an open breaker than no answer
    const bool all = list_pods(exchange, server, tried, pick.forced, as_of);
    const bool whole = scratch.pods.size() == server.pods.size();
    pick.decision = scratch.pods.empty() ? schedule::Decision()
                                         : pipeline.run(exchange.view(), exchange.states, scratch.pods, {},
                                                        whole ? server.pods_version : 0);
    auto& decision = pick.decision;
    if (decision.count == 0) {
      // Pods that are only busy are worth waiting for; else a failing pod is better than none.
      if (all || decision.limited) return pick;
      pick.forced = true;
      continue;
    }
    const auto seen = scratch.pods[decision.candidates[0].index].in_flight;
    if (!whole)
      for (std::size_t c = 0; c < decision.count; ++c)
        decision.candidates[c].index = scratch.pod_numbers[decision.candidates[c].index];
    auto& best = pick.best;
    best.index = decision.candidates[0].index;
    const auto& record = server.pods[best.index].record;
    // Another worker may have chosen the same pod meanwhile: then the scores are old.
    best.guard = i < tries_unchanged ? model::InFlightGuard::take_if_unchanged(record, seen)
                                     : model::InFlightGuard::take_below(record, limit);
    if (!best.guard.pod()) continue;
    if (auto pass = BreakerPass::enter(exchange.shared, record, pick.forced)) {
      best.pass = std::move(*pass);
      pick.next = 1;
      return pick;
    }
    best.guard.release();
  }
  // Many others were quicker each time.
  pick.decision = {};
  pick.decision.limited = limit != schedule::Pipeline::no_limit;
  return pick;
}

bool take_next(Exchange& exchange, const model::ServerEntry& server, Pick& pick, Reserved& reserved) {
  while (pick.next < pick.decision.count) {
    reserved.index = pick.decision.candidates[pick.next++].index;
    const auto& record = server.pods[reserved.index].record;
    auto guard = model::InFlightGuard::take_below(record, exchange.shared.pipeline->in_flight_limit());
    if (!guard.pod()) continue;
    auto pass = BreakerPass::enter(exchange.shared, record, pick.forced);
    if (!pass) continue;
    reserved.guard = std::move(guard);
    reserved.pass = std::move(*pass);
    return true;
  }
  return false;
}

}  // namespace warmroute::proxy
