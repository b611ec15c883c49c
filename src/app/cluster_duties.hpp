#pragma once
// What the router does for a cluster beside routing: the admission webhook and its certificate, the Lease, status and
// Events. Control thread. Nothing of it stops or delays requests.
//
// The namespace is POD_NAMESPACE, else the service account's. Outside of a cluster (kubeconfig) and without
// POD_NAMESPACE nothing is written: no Lease, no status, and the webhook takes its certificate from files alone.

#include <functional>
#include <memory>
#include <vector>

#include "app/options.hpp"
#include "kube/api.hpp"
#include "metrics/registry.hpp"
#include "model/store.hpp"
#include "net/task_group.hpp"
#include "status/lease.hpp"
#include "status/writer.hpp"
#include "webhook/certificate_keeper.hpp"
#include "webhook/server.hpp"

namespace warmroute::app {

class ClusterDuties {
 public:
  /// About objects that are not in the store, because they cannot be used.
  using Unusable = std::function<std::vector<status::Verdict>()>;
  /// \param api is, as `unusable`, not called before the loop runs. \param config of its client. All but these
  /// outlive it.
  ClusterDuties(net::io_context& control, net::TaskGroup& tasks, kube::Api api, const kube::Config& config,
                const Options& options, const model::Store& store, Unusable unusable, metrics::Registry& registry);
  ~ClusterDuties();
  /// Opens the webhook's port, where it is enabled, and begins. Error: the fatal message.
  Result<void> start();
  /// Objects, pods or what is routable changed.
  void resources_changed();
  /// Gives the Lease back; the webhook goes on answering.
  void begin_drain();

 private:
  void build_leader(const model::Store& store, Unusable unusable);
  Result<void> start_webhook();

  net::io_context& control_;
  net::TaskGroup& tasks_;
  const Options& options_;
  metrics::Registry& registry_;
  kube::Api api_;
  std::string namespace_;  ///< empty: nothing is written
  std::unique_ptr<net::ServerTls> tls_;
  std::unique_ptr<webhook::Server> server_;
  std::unique_ptr<status::Writer> writer_;
  std::unique_ptr<status::Lease> lease_;
  std::unique_ptr<webhook::CertificateKeeper> keeper_;
};

}  // namespace warmroute::app
