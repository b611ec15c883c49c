#pragma once
// Cluster mode: the API server's client, the source over it, and the metrics that tell how well both do.

#include <memory>
#include <vector>

#include "app/options.hpp"
#include "kube/client.hpp"
#include "metrics/registry.hpp"
#include "source/cluster.hpp"
#include "status/judge.hpp"

namespace warmroute::app {

class ClusterFollower {
 public:
  /// `tasks` must outlive it.
  ClusterFollower(net::io_context& control, net::TaskGroup& tasks, const kube::Config& config, const Options& options,
                  metrics::Registry& registry, source::ClusterHooks hooks);
  ~ClusterFollower();
  ClusterFollower(const ClusterFollower&) = delete;
  ClusterFollower& operator=(const ClusterFollower&) = delete;
  void start();
  /// For whoever else talks to the API server.
  [[nodiscard]] const std::shared_ptr<kube::Client>& client() const noexcept { return client_; }
  /// About the objects that are left out.
  [[nodiscard]] std::vector<status::Verdict> unusable() const;

 private:
  /// The source's status as the metrics show it, on whatever thread they are read.
  struct Shown;
  void show(metrics::Registry& registry);
  void refresh();

  std::shared_ptr<kube::Client> client_;
  std::shared_ptr<source::Cluster> cluster_;  ///< the only one; the timer's handler asks whether it is still there
  std::shared_ptr<Shown> shown_;
  net::Timer timer_;
};

}  // namespace warmroute::app
