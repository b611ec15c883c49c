#pragma once
// The resources of a cluster: ModelRoutes and ModelServers of all namespaces, and of the Pods those that a ModelServer
// selects. What was once known stays until the API server says otherwise. Control thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config/diagnostic.hpp"
#include "kube/client.hpp"
#include "kube/object_cache.hpp"
#include "kube/reflector.hpp"
#include "model/resources.hpp"
#include "net/task_group.hpp"

namespace warmroute::source {

struct ClusterHooks {
  /// Complete new state; the first call is the sync: every list was had, those of the selected Pods included.
  std::function<void(model::ResourceSet)> changed;
  /// An object that cannot be used, once until the reasons are others; its last good version stays.
  std::function<void(const config::Diagnostics&)> problems;
};

struct ClusterTiming {
  kube::ReflectorTiming watch;
  std::chrono::milliseconds gather{10};  ///< changes that come together are one new state
};

struct ClusterStatus {
  bool synced = false;
  std::size_t watches = 0, connected = 0;
  net::Clock::duration age{0};  ///< of the oldest part of the state; zero while every watch is open
  kube::ReflectorCounters counters;
};

class Cluster {
 public:
  /// `tasks` carries the coroutines; they end soon after the Cluster, which must not outlive it.
  Cluster(net::io_context& control, net::TaskGroup& tasks, std::shared_ptr<kube::Client> client, ClusterHooks hooks,
          ClusterTiming timing = {});
  ~Cluster();  ///< stops following; no hook runs afterwards
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;
  void start();
  [[nodiscard]] ClusterStatus status() const;
  /// Objects that are left out, because no version of them that we know can be used; by NAMESPACE/NAME.
  [[nodiscard]] std::map<std::string, kube::Unusable> unusable_routes() const;
  [[nodiscard]] std::map<std::string, kube::Unusable> unusable_servers() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  ///< the only one; a timer's handler asks whether it is still there
};

}  // namespace warmroute::source
