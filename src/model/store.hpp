#pragma once
// Holds what the sources know, works out which pods are routable and what changed, and tells the others:
// a new snapshot, pods that joined, pods that left. Control thread only. No I/O.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"

namespace warmroute::model {

/// A pod as the scraper and the prober need it.
struct ScrapeTarget {
  std::shared_ptr<PodRecord> record;
  Engine engine = Engine::vllm;
  std::uint16_t port = 0;
  bool https = false;
  bool is_static = false;  ///< probe /health; report with set_reachable
};

class Store {
 public:
  struct Hooks {
    /// Runs before the first snapshot that holds the pod.
    std::function<void(const PodRecord&)> pod_joined;
    /// Runs on every path by which an incarnation stops being routable, after record->mark_left().
    std::function<void(const PodRecord&)> pod_left;
    std::function<void(std::shared_ptr<const Snapshot>)> snapshot;
    /// The full list of pods to scrape (routable ones and static ones that are down) whenever it changed.
    std::function<void(const std::vector<ScrapeTarget>&)> targets;
    std::function<void(std::string_view)> log_warning;
  };
  explicit Store(Hooks hooks);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  /// Replaces everything: diffs against what is there, keeps records (and with them prefix state and counters)
  /// of incarnations that stay, fires pod_joined, pod_left, snapshot, targets in that order.
  void replace(ResourceSet desired);
  /// New list of /v1/models of a pod. No-op for an incarnation that has left or an equal list.
  void set_loaded_models(PodId pod, std::vector<std::string> models);
  /// Static pods: out of rotation when false, back when true. The record stays the same incarnation.
  void set_reachable(PodId pod, bool reachable);
  /// The engine's process_start_time_seconds. A value later than the known one (by more than a second) means the
  /// engine restarted: a new incarnation, unless the pod's container start is known from Kubernetes.
  void set_process_start(PodId pod, double unix_seconds);
  /// A text that is equal for the same incarnation in another process too (EngineFacts::incarnation); empty while no
  /// start of container or engine is known.
  [[nodiscard]] std::string incarnation(PodId pod) const;

  [[nodiscard]] std::shared_ptr<const Snapshot> snapshot() const;
  /// Everything known, for the debug pages.
  [[nodiscard]] const ResourceSet& resources() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace warmroute::model
