// Where resources come from, and when the router is ready: the part of Router between source and store.

#include <atomic>
#include <boost/asio/post.hpp>

#include "app/router.hpp"
#include "base/log.hpp"

namespace warmroute::app {

void Router::report(const config::Diagnostics& problems, const char* metric, const char* help) {
  for (const auto& problem : problems) {
    const bool is_error = problem.severity == config::Diagnostic::Severity::error;
    log::write(is_error ? log::Level::error : log::Level::warning, problem.text());
  }
  if (config::has_errors(problems)) registry_->counter(metric, help).inc();
}

void Router::start_source() {
  auto changed = [this](model::ResourceSet resources) { resources_changed(std::move(resources)); };
  if (cluster_) {
    source::ClusterHooks hooks;
    hooks.changed = std::move(changed);
    hooks.problems = [this](const config::Diagnostics& problems) {
      report(problems, "warmroute_kube_rejected_objects_total", "Objects of the cluster that could not be used");
      if (duties_) duties_->resources_changed();
    };
    follower_ = std::make_unique<ClusterFollower>(control_, tasks_, *cluster_, options_, *registry_, std::move(hooks));
    follower_->start();
    return;
  }
  source::FilesHooks hooks;
  hooks.changed = std::move(changed);
  hooks.problems = [this](const config::Diagnostics& problems) {
    report(problems, "warmroute_resource_reload_errors_total", "Resource files that could not be applied");
    if (config::has_errors(problems)) log::error("resources were not applied; the last good state stays in force");
  };
  files_ = std::make_unique<source::Files>(control_, options_.resources, std::move(hooks));
  files_->start();
}

void Router::resources_changed(model::ResourceSet resources) {
  store_->replace(std::move(resources));
  if (duties_) duties_->resources_changed();
  if (synced_) return;
  synced_ = true;
  publish_now();
  synced_at_ = net::Clock::now();
  ready_timer_.expires_after(std::chrono::seconds(1));
  ready_timer_.async_wait([this](net::error_code ec) {
    if (!ec) update_ready();
  });
  update_ready();
}

void Router::update_ready() {
  if (!synced_ || shared_.ready.load()) return;
  const bool waited = net::Clock::now() - synced_at_ >= std::chrono::seconds(1);
  if (!waited && !poller_->first_round_done()) return;
  // The workers learn of the first table by a post that precedes this: a request after a 200 finds its route.
  auto remaining = std::make_shared<std::atomic<std::size_t>>(contexts_.size());
  for (auto& context : contexts_)
    boost::asio::post(context->worker.io(), [this, remaining] {
      if (remaining->fetch_sub(1) == 1 && !shared_.ready.exchange(true)) log::info("router is ready");
    });
}

}  // namespace warmroute::app
