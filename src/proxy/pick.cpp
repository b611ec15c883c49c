#include "proxy/pick.hpp"

namespace warmroute::proxy {

Pick pick(Exchange& exchange, const model::ServerEntry& server) {
  auto& pods = exchange.session.context().scratch.pods;
  const auto now = model::Clock::now();
  Pick pick;
  constexpr int tries = 4;
  for (int i = 0; i < tries; ++i) {
    pods.clear();
    for (const auto& entry : server.pods) {
      PodView view;
      view.id = entry.record->id();
      view.name = entry.record->key();
      view.in_flight = entry.record->in_flight();
      view.load = entry.record->fresh_sample(now, exchange.shared.settings.sample_max_age);
      view.loaded_models = *entry.loaded_models;
      pods.push_back(view);
    }
    pick.decision = exchange.shared.pipeline->run(exchange.view(), exchange.states, pods, {}, server.pods_version);
    if (pick.decision.count == 0) return pick;
    const auto best = pick.decision.candidates[0].index;
    // Another worker may have chosen the same pod meanwhile: then the scores are old.
    pick.guard = i + 1 < tries ? model::InFlightGuard::take_if_unchanged(server.pods[best].record, pods[best].in_flight)
                               : model::InFlightGuard(server.pods[best].record);
    if (pick.guard.pod()) return pick;
  }
  return pick;
}

}  // namespace warmroute::proxy
