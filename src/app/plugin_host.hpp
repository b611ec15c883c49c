#pragma once
// What the router offers its plugins, over the metrics registry, the log and the store's pod events; and the
// scheduler's timing metric.

#include <memory>
#include <utility>
#include <vector>

#include "metrics/registry.hpp"
#include "net/periodic_thread.hpp"
#include "schedule/pipeline.hpp"
#include "warmroute/plugin_registry.hpp"

namespace warmroute::app {

class PluginHost final : public Host, public schedule::Timing {
 public:
  explicit PluginHost(metrics::Registry& registry);

  void info(std::string_view message) override;
  void warning(std::string_view message) override;
  void error(std::string_view message) override;
  [[nodiscard]] std::uint64_t random() noexcept override;
  [[nodiscard]] std::uint64_t hash_seed() const noexcept override { return hash_seed_; }
  [[nodiscard]] std::shared_ptr<CounterByModel> counter_by_model(std::string_view name, std::string_view help) override;
  [[nodiscard]] std::shared_ptr<HistogramByModel> histogram_by_model(std::string_view name, std::string_view help,
                                                                     std::span<const double> buckets) override;
  void gauge(std::string_view name, std::string_view help, std::function<double()> read) override;
  void on_pod_joined(std::function<void(PodId)> hook) override { joined_.push_back(std::move(hook)); }
  void on_pod_left(std::function<void(PodId)> hook) override { left_.push_back(std::move(hook)); }

  void on_engine_facts(std::function<void(PodId, const EngineFacts&)> hook) override {
    facts_.push_back(std::move(hook));
  }
  void in_background(std::chrono::seconds period, std::function<void()> job) override {
    jobs_.emplace_back(period, std::move(job));
  }

  /// Starts what plugins want to have done in the background.
  void start_background();
  /// Runs it a last time. After the workers have ended.
  void stop_background() { background_.clear(); }

  /// Called by the hooks of store and poller, on the control thread.
  void pod_joined(PodId pod) const;
  void pod_left(PodId pod) const;
  void engine_facts(PodId pod, const EngineFacts& facts) const;

  void plugin_took(std::string_view model, std::string_view plugin, Role role, double seconds) noexcept override;

 private:
  metrics::Registry& registry_;
  std::uint64_t hash_seed_;
  std::vector<std::function<void(PodId)>> joined_, left_;
  std::vector<std::function<void(PodId, const EngineFacts&)>> facts_;
  std::vector<std::pair<std::chrono::seconds, std::function<void()>>> jobs_;
  std::vector<std::unique_ptr<net::PeriodicThread>> background_;
};

}  // namespace warmroute::app
