#include "app/breaker_series.hpp"

#include <string>

#include "base/log.hpp"

namespace warmroute::app {

void BreakerSeries::show(const model::PodRecord& pod) {
  if (!policy_.enabled()) return;
  registry_.gauge("warmroute_breaker_state", "0: closed, 1: open, 2: half-open, 3: ramping up", {{"pod", pod.key()}})
      .set(static_cast<double>(pod.breaker().state(policy_, model::Clock::now())));
}

void BreakerSeries::changed(const model::PodRecord& pod, model::Breaker::State to) {
  if (pod.left()) return;
  show(pod);
  registry_
      .counter("warmroute_breaker_transitions_total", "Changes of a pod's breaker, by the state it went to",
               {{"pod", pod.key()}, {"to", std::string(name(to))}})
      .inc();
  const auto level = to == model::Breaker::State::open ? log::Level::warning : log::Level::info;
  log::write(level, "breaker of pod " + pod.key() + ": " + std::string(name(to)));
}

}  // namespace warmroute::app
