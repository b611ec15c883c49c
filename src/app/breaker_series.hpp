#pragma once
// What operators see of breakers: the state of each pod's, its changes, a line in the log. Control thread only.

#include "metrics/registry.hpp"
#include "model/pod_record.hpp"

namespace warmroute::app {

class BreakerSeries {
 public:
  /// `registry` outlives it.
  BreakerSeries(metrics::Registry& registry, const model::BreakerPolicy& policy)
      : registry_(registry), policy_(policy) {}
  /// Sets the pod's gauge; nothing while breakers are off. The pod has not left.
  void show(const model::PodRecord& pod);
  /// Counts and logs. Nothing for a pod that has left: its series are gone.
  void changed(const model::PodRecord& pod, model::Breaker::State to);

 private:
  metrics::Registry& registry_;
  const model::BreakerPolicy policy_;
};

}  // namespace warmroute::app
