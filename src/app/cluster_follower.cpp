#include "app/cluster_follower.hpp"

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>

#include "base/log.hpp"

namespace warmroute::app {
namespace {

constexpr std::chrono::milliseconds refresh_interval{250};

kube::ClientOptions client_options(const Options& options) {
  kube::ClientOptions out;
  out.qps = options.kube_api_qps;
  out.burst = options.kube_api_burst;
  return out;
}

source::ClusterTiming timing_of(const Options& options) {
  source::ClusterTiming out;
  out.watch.silence = options.kube_watch_silence;
  out.watch.relist = options.kube_relist;
  return out;
}

}  // namespace

struct ClusterFollower::Shown {
  void set(const source::ClusterStatus& next) {
    const std::lock_guard lock(mutex);
    status = next;
  }
  source::ClusterStatus get() {
    const std::lock_guard lock(mutex);
    return status;
  }
  std::mutex mutex;
  source::ClusterStatus status;
};

ClusterFollower::ClusterFollower(net::io_context& control, net::TaskGroup& tasks, const kube::Config& config,
                                 const Options& options, metrics::Registry& registry, source::ClusterHooks hooks)
    : client_(std::make_shared<kube::Client>(control, config, client_options(options))),
      cluster_(std::make_shared<source::Cluster>(control, tasks, client_, std::move(hooks), timing_of(options))),
      shown_(std::make_shared<Shown>()),
      timer_(control) {
  log::info("Kubernetes: following {} ({})", config.server, config.origin);
  if (config.origin == "in-cluster" && !options.kubeconfig.empty())
    log::warning("Kubernetes: the pod's service account is used, {} is not", options.kubeconfig);
  show(registry);
}

ClusterFollower::~ClusterFollower() {
  cluster_.reset();
  client_->close();
}

void ClusterFollower::start() {
  cluster_->start();
  refresh();
}

std::vector<status::Verdict> ClusterFollower::unusable() const {
  std::vector<status::Verdict> out;
  for (const auto& [key, object] : cluster_->unusable_servers())
    out.push_back(status::judge_unusable(status::Kind::model_server, key, object.uid, object.problem));
  for (const auto& [key, object] : cluster_->unusable_routes())
    out.push_back(status::judge_unusable(status::Kind::model_route, key, object.uid, object.problem));
  return out;
}

void ClusterFollower::refresh() {
  shown_->set(cluster_->status());
  timer_.expires_after(refresh_interval);
  timer_.async_wait([this, weak = std::weak_ptr<source::Cluster>(cluster_)](const net::error_code& ec) {
    if (!ec && !weak.expired()) refresh();
  });
}

void ClusterFollower::show(metrics::Registry& registry) {
  const auto status = [shown = shown_] { return shown->get(); };
  registry.gauge_callback("warmroute_kube_state_age_seconds",
                          "Age of the oldest part of the cluster's state; 0 while every watch is open",
                          [status] { return std::chrono::duration<double>(status().age).count(); });
  registry.gauge_callback("warmroute_kube_synced", "1: the cluster's state was complete once",
                          [status] { return status().synced ? 1.0 : 0.0; });
  registry.gauge_callback("warmroute_kube_watches", "Lists of the API server that are followed",
                          [status] { return static_cast<double>(status().watches); });
  registry.gauge_callback("warmroute_kube_watches_connected", "Of them, those whose watch is open",
                          [status] { return static_cast<double>(status().connected); });
  const auto count = [&](std::string_view name, std::string_view help, std::uint64_t kube::ReflectorCounters::*member) {
    registry.counter_callback(name, help, [status, member] { return static_cast<double>(status().counters.*member); });
  };
  using Counters = kube::ReflectorCounters;
  count("warmroute_kube_events_total", "Changes told by watches", &Counters::events);
  count("warmroute_kube_stale_total", "Events and lists older than what was known, passed over", &Counters::stale);
  count("warmroute_kube_lists_total", "Complete lists read", &Counters::lists);
  count("warmroute_kube_failures_total", "Lists and watches that ended in an error", &Counters::failures);
  count("warmroute_kube_repaired_total", "Lists that found what their watch had not told", &Counters::repaired);
  (void)registry.counter("warmroute_kube_rejected_objects_total", "Objects of the cluster that could not be used");
}

}  // namespace warmroute::app
