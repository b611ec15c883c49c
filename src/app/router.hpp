#pragma once
// Every object of the process, built once in dependency order, and the threads that run them.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "admin/http_server.hpp"
#include "app/cluster_duties.hpp"
#include "app/cluster_follower.hpp"
#include "app/options.hpp"
#include "app/plugin_host.hpp"
#include "config/router_config.hpp"
#include "model/store.hpp"
#include "net/listener.hpp"
#include "proxy/context.hpp"
#include "scrape/poller.hpp"
#include "source/files.hpp"

namespace warmroute::app {

class BreakerSeries;

class Router {
 public:
  Router(const Options& options, config::RouterConfig config, std::string config_path, std::string config_text);
  ~Router();

  /// Opens the listeners, starts workers, sources and scraping. Error: the fatal message.
  Result<void> start();
  /// Runs the control thread's loop until stop().
  void run();

  // For the lifecycle, control thread ------------------------------------------------------------------------------
  [[nodiscard]] net::io_context& control() noexcept { return control_; }
  /// /readyz turns 503 and answers carry Connection: close; new connections are still served.
  void begin_drain();
  /// New handshakes are not begun any more; what is under way still gets through to close_listeners().
  void refuse_new_connections();
  /// Serves what has connected so far, accepts nothing more, closes idle connections.
  void close_listeners();
  [[nodiscard]] std::size_t open_connections() const noexcept;
  /// Of all workers; 0 without --step-times.
  [[nodiscard]] net::Worker::StepTimes step_times() const noexcept;
  /// Ends what still runs.
  void abort_sessions();
  /// Joins the workers and flushes the logs. After run() returned.
  void finish();
  void stop() { control_.stop(); }
  void reopen_logs();

 private:
  Result<void> build_pipeline(config::RouterConfig config);
  Result<void> build_tls();
  Result<void> open_listeners();
  void build_counters();
  void publish();
  void publish_now();
  void forget_pod(const model::PodRecord& pod);
  void start_source();
  void report(const config::Diagnostics& problems, const char* metric, const char* help);
  void start_poller();
  void resources_changed(model::ResourceSet resources);
  void update_ready();
  net::Task<> watch_files();

  Options options_;
  config::RouterConfig config_;
  std::string config_path_, config_text_;
  std::optional<kube::Config> cluster_;  ///< what to follow without --resources
  net::io_context control_{1};
  std::unique_ptr<metrics::Registry> registry_;
  PluginHost host_;
  Registry plugins_;
  std::unique_ptr<schedule::Pipeline> pipeline_;
  std::unique_ptr<metrics::RequestMetrics> request_metrics_;
  std::unique_ptr<metrics::AccessLog> access_log_;
  std::unique_ptr<net::ServerTls> server_tls_;
  std::unique_ptr<net::ClientTls> client_tls_;
  std::unique_ptr<BreakerSeries> breakers_;
  std::unique_ptr<proxy::WaitQueues> queues_;
  proxy::Shared shared_;
  std::vector<std::unique_ptr<net::Worker>> workers_;
  std::vector<std::unique_ptr<proxy::WorkerContext>> contexts_;
  std::unique_ptr<model::Store> store_;
  std::shared_ptr<const route::Table> table_;
  std::unique_ptr<scrape::Poller> poller_;
  std::unique_ptr<source::Files> files_;       ///< standalone mode
  std::unique_ptr<ClusterFollower> follower_;  ///< cluster mode
  std::unique_ptr<ClusterDuties> duties_;      ///< cluster mode
  std::unique_ptr<net::Listener> listener_;
  std::unique_ptr<admin::HttpServer> metrics_server_, debug_server_;
  bool synced_ = false, publishing_ = false;
  net::Clock::time_point synced_at_{};
  net::Timer ready_timer_{control_}, watch_timer_{control_};
  net::TaskGroup tasks_{control_};  // last: coroutines die before what they use
};

}  // namespace warmroute::app
