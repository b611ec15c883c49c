#pragma once
// A Host for tests: keeps what plugins say, hands out metrics that can be read, and plays the pod store.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "warmroute/plugin_registry.hpp"

namespace warmroute::test {

class FakeHost final : public Host {
 public:
  struct Series : CounterByModel, HistogramByModel {
    void add(std::string_view model, double amount) noexcept override {
      const std::lock_guard lock(mutex);
      sums[std::string(model)] += amount;
    }
    void observe(std::string_view model, double value) noexcept override {
      const std::lock_guard lock(mutex);
      seen[std::string(model)].push_back(value);
    }
    std::mutex mutex;
    std::map<std::string, double> sums;
    std::map<std::string, std::vector<double>> seen;
    std::vector<double> buckets;
  };

  void info(std::string_view message) override { infos.emplace_back(message); }
  void warning(std::string_view message) override { warnings.emplace_back(message); }
  void error(std::string_view message) override { errors.emplace_back(message); }
  std::uint64_t random() noexcept override { return base::random64(); }
  std::uint64_t hash_seed() const noexcept override { return seed; }
  std::shared_ptr<CounterByModel> counter_by_model(std::string_view name, std::string_view) override {
    return series(name);
  }
  std::shared_ptr<HistogramByModel> histogram_by_model(std::string_view name, std::string_view,
                                                       std::span<const double> buckets) override {
    auto made = series(name);
    made->buckets.assign(buckets.begin(), buckets.end());
    return made;
  }
  void gauge(std::string_view name, std::string_view, std::function<double()> read) override {
    gauges[std::string(name)] = std::move(read);
  }
  void on_pod_joined(std::function<void(PodId)> hook) override { joined.push_back(std::move(hook)); }
  void on_pod_left(std::function<void(PodId)> hook) override { left.push_back(std::move(hook)); }
  void on_engine_facts(std::function<void(PodId, const EngineFacts&)> hook) override {
    facts.push_back(std::move(hook));
  }
  void in_background(std::chrono::seconds, std::function<void()> job) override { jobs.push_back(std::move(job)); }

  std::shared_ptr<Series> series(std::string_view name) {
    auto& made = all_series[std::string(name)];
    if (!made) made = std::make_shared<Series>();
    return made;
  }
  void join(PodId pod) const {
    for (const auto& hook : joined) hook(pod);
  }
  void leave(PodId pod) const {
    for (const auto& hook : left) hook(pod);
  }
  void tell(PodId pod, const EngineFacts& of) const {
    for (const auto& hook : facts) hook(pod, of);
  }
  /// The background jobs once.
  void run_jobs() const {
    for (const auto& job : jobs) job();
  }
  [[nodiscard]] static bool contains(const std::vector<std::string>& lines, std::string_view part) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

  std::uint64_t seed = 0x5eed;
  std::vector<std::string> infos, warnings, errors;
  std::map<std::string, std::shared_ptr<Series>> all_series;
  std::map<std::string, std::function<double()>> gauges;
  std::vector<std::function<void(PodId)>> joined, left;
  std::vector<std::function<void(PodId, const EngineFacts&)>> facts;
  std::vector<std::function<void()>> jobs;
};

}  // namespace warmroute::test
