#include "app/router.hpp"

#include <boost/asio/post.hpp>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "admin/explain.hpp"
#include "admin/pages.hpp"
#include "app/breaker_series.hpp"
#include "app/machine.hpp"
#include "app/proxy_settings.hpp"
#include "base/log.hpp"
#include "proxy/session.hpp"
#include "proxy/wait_queue.hpp"

namespace warmroute::app {
namespace {

Error fatal(std::string message) { return Error{Errc::io, Source::internal, Retry::never, std::move(message)}; }

std::optional<std::uint16_t> port_number(const std::string& text) {
  unsigned value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(value);
}

std::optional<std::string> read_whole(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) return std::nullopt;
  return std::move(text).str();
}

}  // namespace

Router::Router(const Options& options, config::RouterConfig config, std::string config_path, std::string config_text)
    : options_(options),
      config_(std::move(config)),
      config_path_(std::move(config_path)),
      config_text_(std::move(config_text)),
      registry_(metrics::Registry::create()),
      host_(*registry_) {
  const bool compat = options_.compat_given ? options_.compat_kthena : config_.compat_kthena;
  shared_.settings = settings_of(options_, compat);
  shared_.settings.pd_threshold_tokens = config_.pd_threshold_tokens;
  config_.pipeline.skip_unknown = compat;
}

Router::~Router() = default;

Result<void> Router::build_pipeline(config::RouterConfig config) {
  register_plugins(plugins_);
  auto pipeline = schedule::build_pipeline(config.pipeline, plugins_, host_, &host_);
  if (!pipeline) return fatal("failed to Load Scheduler: " + pipeline.error().detail);
  pipeline_ = std::move(*pipeline);
  shared_.pipeline = pipeline_.get();
  if (config.pd_threshold_tokens > 0 && !pipeline_->knows_prefixes())
    log::warning("pdThresholdTokens has no effect: no plugin knows what decode pods hold; enable prefix-cache");
  return {};
}

Result<void> Router::build_tls() {
  auto client = net::ClientTls::create(options_.upstream_ca, options_.upstream_insecure);
  if (!client) return fatal("TLS to engines: " + client.error().detail);
  client_tls_ = std::move(*client);
  shared_.client_tls = client_tls_.get();
  if (!options_.tls_cert.empty()) {
    auto server = net::ServerTls::create(options_.tls_cert, options_.tls_key);
    if (!server) return fatal("TLS listener: " + server.error().detail);
    server_tls_ = std::move(*server);
    shared_.server_tls = server_tls_.get();
  }
  return {};
}

void Router::build_counters() {
  auto& counters = shared_.counters;
  counters.retries =
      &registry_->counter("warmroute_upstream_retries_total", "Attempts after the first one of a request");
  counters.fresh_connection_retries =
      &registry_->counter("warmroute_upstream_fresh_connection_retries_total",
                          "Requests sent again to the same pod because a pooled connection had been closed");
  counters.connects = &registry_->counter("warmroute_upstream_connects_total", "New connections to engines");
  const auto outcome = [&](const char* end) {
    return &registry_->counter("warmroute_attempts_total", "Attempts on pods by how they ended", {{"outcome", end}});
  };
  counters.outcome_complete = outcome("complete");
  counters.outcome_failed = outcome("failed_before_first_byte");
  counters.outcome_cut = outcome("cut");
  counters.outcome_client_left = outcome("client_left");
  counters.pd_decode_alone = &registry_->counter("warmroute_pd_decode_alone_total",
                                                 "Decode pods asked without a prefill pod (pdThresholdTokens)");
  counters.refused_heads =
      &registry_->counter("warmroute_refused_heads_total", "Requests refused before their head was understood");
  registry_->gauge_callback("warmroute_buffered_request_bytes", "Bytes of request bodies held in memory",
                            [this] { return static_cast<double>(shared_.buffered_bytes.load()); });
  registry_->gauge_callback("warmroute_client_connections", "Open client connections",
                            [this] { return static_cast<double>(open_connections()); });
  registry_->counter_callback("warmroute_log_records_lost_total", "Log records dropped because the queue was full",
                              [] { return static_cast<double>(log::lost()); });
  registry_->counter_callback("warmroute_access_log_lines_lost_total", "Access log lines dropped",
                              [this] { return access_log_ ? static_cast<double>(access_log_->lost()) : 0.0; });
  registry_->counter_callback("warmroute_connections_refused_total",
                              "Connections that came when the connection limit was reached",
                              [this] { return listener_ ? static_cast<double>(listener_->refused()) : 0.0; });
  if (options_.step_times) {
    registry_->counter_callback("warmroute_worker_steps_total", "Steps of the workers' loops",
                                [this] { return static_cast<double>(step_times().steps); });
    registry_->counter_callback("warmroute_worker_slow_steps_total", "Steps that took more than 1 ms of CPU time",
                                [this] { return static_cast<double>(step_times().slow); });
    registry_->gauge_callback("warmroute_worker_step_seconds_max", "CPU time of the longest step so far",
                              [this] { return std::chrono::duration<double>(step_times().longest).count(); });
  }
  registry_->gauge("warmroute_build_info", "Always 1", {{"version", version()}}).set(1);
  // 0 from the start, so that alerts on a rise have a beginning.
  (void)registry_->counter("warmroute_resource_reload_errors_total", "Resource files that could not be applied");
  (void)registry_->gauge("warmroute_config_changed_on_disk",
                         "1: routerConfiguration.yaml differs from what is in force");
}

Result<void> Router::start() {
  if (options_.resources.empty()) {
    auto found = kube::find_config(options_.kubeconfig, kube::Environment::of_process());
    if (!found) return fatal(found.error().detail);
    cluster_ = std::move(*found);
  }
  build_counters();
  if (auto built = build_pipeline(config_); !built) return built;
  if (auto built = build_tls(); !built) return built;
  request_metrics_ = metrics::RequestMetrics::create(*registry_);
  shared_.metrics = request_metrics_.get();
  shared_.registry = registry_.get();
  metrics::AccessLogOptions log_options;
  log_options.enabled = options_.access_log_enabled;
  log_options.json = options_.access_log_json;
  log_options.output = options_.access_log_output;
  if (log_options.enabled) {
    auto access_log = metrics::AccessLog::create(log_options);
    if (!access_log) return fatal(access_log.error().detail);
    access_log_ = std::move(*access_log);
    shared_.access_log = access_log_.get();
  }
  queues_ = std::make_unique<proxy::WaitQueues>(queue_limits_of(options_), *registry_);
  shared_.queues = queues_.get();
  breakers_ = std::make_unique<BreakerSeries>(*registry_, shared_.settings.breaker);
  shared_.breaker_changed = [this](const std::shared_ptr<model::PodRecord>& pod, model::Breaker::State to) {
    boost::asio::post(control_, [this, pod, to] { breakers_->changed(*pod, to); });
  };
  shared_.connect_failed = [this](PodId pod) {
    boost::asio::post(control_, [this, pod] {
      if (poller_) poller_->connect_failed(pod);
    });
  };

  table_ = route::Table::build(std::make_shared<model::Snapshot>(), nullptr, nullptr);
  const auto count = options_.workers > 0 ? static_cast<unsigned>(options_.workers) : available_cpus();
  for (unsigned i = 0; i < count; ++i) {
    workers_.push_back(std::make_unique<net::Worker>(i));
    contexts_.push_back(std::make_unique<proxy::WorkerContext>(*workers_.back(), shared_));
    contexts_.back()->table = table_;
  }
  if (auto opened = open_listeners(); !opened) return opened;
  if (cluster_) {
    auto api = [this](kube::Request request) { return follower_->client()->request(std::move(request)); };
    auto unusable = [this] { return follower_->unusable(); };
    duties_ =
        std::make_unique<ClusterDuties>(control_, tasks_, api, *cluster_, options_, *store_, unusable, *registry_);
    if (auto started = duties_->start(); !started) return fatal(started.error().detail);
  }
  for (auto& worker : workers_) worker->start(options_.step_times);
  start_poller();
  start_source();
  tasks_.spawn("file watch", watch_files());
  host_.start_background();
  log::info("warmroute {} listens on port {}, {} workers, at most {} MiB of request bodies in memory", version(),
            options_.port, count, shared_.settings.max_buffered_bytes >> 20U);
  return {};
}

Result<void> Router::open_listeners() {
  const auto descriptors = raise_descriptor_limit();
  net::Listener::Options listen;
  listen.address = options_.bind_address;
  // Each client connection may need one to an engine; the rest is for files, scrapes and admin connections.
  listen.max_connections =
      options_.max_connections != 0 ? options_.max_connections : (descriptors > 512 ? (descriptors - 256) / 2 : 128);
  log::info("descriptor limit {}, connection limit {}", descriptors, listen.max_connections);
  const auto port = port_number(options_.port);
  if (!port) return fatal("listen failed: invalid port: " + options_.port);
  listen.port = *port;
  listen.tls = shared_.server_tls != nullptr;

  std::vector<net::Worker*> workers;
  for (auto& worker : workers_) workers.push_back(worker.get());
  listener_ = std::make_unique<net::Listener>(
      control_, workers, [this](net::Worker& worker, net::Socket socket, bool over_limit) {
        auto& context = *contexts_[worker.index()];
        if (!worker.tasks().spawn("client session", proxy::run_session(context, std::move(socket), over_limit)))
          worker.connections.fetch_sub(1, std::memory_order_relaxed);  // shutting down: the socket closes here
      });
  if (auto opened = listener_->listen(listen); !opened)
    return fatal("listen failed: listen on port " + options_.port + ": " + opened.error().detail);

  metrics_server_ = std::make_unique<admin::HttpServer>(
      control_, "Metrics server", [this](std::string_view target) { return admin::metrics_page(*registry_, target); });
  if (auto opened = metrics_server_->listen(options_.bind_address, static_cast<std::uint16_t>(options_.metrics_port));
      !opened)
    return fatal(opened.error().detail);
  model::Store::Hooks hooks;
  hooks.pod_joined = [this](const model::PodRecord& pod) {
    host_.pod_joined(pod.id());
    breakers_->show(pod);
  };
  hooks.pod_left = [this](const model::PodRecord& pod) { forget_pod(pod); };
  hooks.snapshot = [this](const std::shared_ptr<const model::Snapshot>&) { publish(); };
  hooks.targets = [this](const std::vector<model::ScrapeTarget>& targets) { poller_->set_targets(targets); };
  hooks.log_warning = [](std::string_view text) { log::write(log::Level::warning, text); };
  store_ = std::make_unique<model::Store>(std::move(hooks));
  debug_server_ = std::make_unique<admin::HttpServer>(control_, "Debug server", [this](std::string_view target) {
    return admin::debug_page(*store_, target, shared_.settings.breaker);
  });
  debug_server_->accept_posts(
      [this](const admin::Post& post) {
        const admin::ExplainContext context{*table_, *pipeline_, shared_.settings.sample_max_age,
                                            shared_.settings.compat};
        return admin::explain_page(context, post);
      },
      admin::explain_body_limit_bytes);
  if (auto opened = debug_server_->listen("localhost", static_cast<std::uint16_t>(options_.debug_port)); !opened)
    return fatal(opened.error().detail);
  return {};
}

void Router::publish() {
  // At the start every pod's first model list makes a snapshot of its own: one table for all of a loop turn.
  if (publishing_) return;
  publishing_ = true;
  boost::asio::post(control_, [this] { publish_now(); });
}

void Router::publish_now() {
  publishing_ = false;
  if (duties_) duties_->resources_changed();
  table_ = route::Table::build(store_->snapshot(), table_.get(),
                               [](std::string_view text) { log::write(log::Level::warning, text); });
  // Logged when every worker has it: whoever reads the line may rely on it.
  auto remaining = std::make_shared<std::atomic<std::size_t>>(contexts_.size());
  for (auto& context : contexts_)
    boost::asio::post(context->worker.io(), [&context = *context, table = table_, remaining] {
      context.table = table;
      context.shared.queues->table_changed(context.worker.io());
      if (remaining->fetch_sub(1) != 1) return;
      const auto& now = *table->snapshot();
      std::size_t pods = 0;
      for (const auto& [key, server] : now.servers) pods += server->pods.size();
      log::info("routing table {}: {} ModelRoutes, {} ModelServers, {} ready pods", now.version, now.routes.size(),
                now.servers.size(), pods);
    });
}

void Router::forget_pod(const model::PodRecord& pod) {
  host_.pod_left(pod.id());
  registry_->remove("pod", pod.key());
  for (auto& context : contexts_)
    boost::asio::post(context->worker.io(), [&context = *context, id = pod.id()] { context.pool.forget(id); });
}

void Router::start_poller() {
  scrape::PollerOptions poll;
  poll.interval = options_.scrape_interval;
  scrape::PollerHooks hooks;
  hooks.models = [this](PodId pod, std::vector<std::string> models) {
    store_->set_loaded_models(pod, std::move(models));
  };
  hooks.reachable = [this](PodId pod, bool reachable) { store_->set_reachable(pod, reachable); };
  hooks.process_start = [this](PodId pod, double seconds) { store_->set_process_start(pod, seconds); };
  hooks.kv_tokens = [this](PodId pod, std::int64_t tokens) {
    host_.engine_facts(pod, {store_->incarnation(pod), tokens});
  };
  hooks.scraped = [this](const model::PodRecord& pod, bool ok) {
    if (pod.left()) return;  // its series are gone
    breakers_->show(pod);    // a ramp ends without an event
    registry_
        ->gauge("warmroute_pod_metrics_up", "1: the last scrape of the pod's metrics succeeded", {{"pod", pod.key()}})
        .set(ok ? 1 : 0);
    if (!ok)
      registry_
          ->counter("warmroute_pod_scrape_failures_total", "Scrapes of the pod that gave no sample",
                    {{"pod", pod.key()}})
          .inc();
  };
  hooks.first_round_done = [this] { update_ready(); };
  poller_ = std::make_unique<scrape::Poller>(control_, poll, client_tls_.get(), std::move(hooks));
}

net::Task<> Router::watch_files() {
  bool told = false;
  while (true) {
    watch_timer_.expires_after(std::chrono::seconds(2));
    auto [ec] = co_await watch_timer_.async_wait(net::as_result);
    if (ec) co_return;
    // Small local files, read on the control thread: no request waits for it.
    if (server_tls_) {
      const auto reloaded = server_tls_->reload_if_changed();
      if (!reloaded) log::v(1, "TLS certificate not reloaded: {}", reloaded.error().detail);
      if (reloaded && *reloaded) log::info("TLS certificate reloaded");
    }
    if (config_path_.empty()) continue;
    const auto text = read_whole(config_path_);
    const bool changed = !text || *text != config_text_;
    registry_->gauge("warmroute_config_changed_on_disk", "1: routerConfiguration.yaml differs from what is in force")
        .set(changed ? 1 : 0);
    if (changed && !told) log::warning("configuration changed on disk; restart to apply");
    told = changed;
  }
}

void Router::run() { control_.run(); }

void Router::begin_drain() {
  shared_.draining = true;
  if (duties_) duties_->begin_drain();
}

void Router::refuse_new_connections() { listener_->refuse_new(); }

void Router::close_listeners() {
  listener_->stop();
  shared_.closing = true;
  for (auto& context : contexts_)
    boost::asio::post(context->worker.io(), [&context = *context] {
      // Sessions end only later, from the loop, so the list does not change under us.
      for (auto* session : context.sessions) session->close_if_idle();
      context.pool.clear();
    });
}

net::Worker::StepTimes Router::step_times() const noexcept {
  net::Worker::StepTimes all;
  for (const auto& worker : workers_) {
    const auto times = worker->step_times();
    all.steps += times.steps;
    all.slow += times.slow;
    all.longest = std::max(all.longest, times.longest);
  }
  return all;
}

std::size_t Router::open_connections() const noexcept {
  std::size_t count = 0;
  for (const auto& worker : workers_) count += worker->connections.load(std::memory_order_relaxed);
  return count;
}

void Router::abort_sessions() {
  for (auto& context : contexts_)
    boost::asio::post(context->worker.io(), [&context = *context] {
      context.worker.tasks().close();
      // A copy: a session may end, and leave the list, inside abort().
      const std::vector<proxy::Session*> sessions(context.sessions.begin(), context.sessions.end());
      for (auto* session : sessions) session->abort();
    });
}

void Router::finish() {
  files_.reset();
  duties_.reset();
  follower_.reset();
  poller_.reset();
  metrics_server_.reset();
  debug_server_.reset();
  for (auto& context : contexts_)
    boost::asio::post(context->worker.io(), [&context = *context] { context.pool.clear(); });
  for (auto& worker : workers_) worker->join();
  host_.stop_background();
  access_log_.reset();
  if (open_connections() > 0) {  // sessions that even abort() did not end: their frames must not outlive us
    log::stop();
    std::_Exit(0);
  }
}

void Router::reopen_logs() {
  if (access_log_) access_log_->reopen();
}

}  // namespace warmroute::app
