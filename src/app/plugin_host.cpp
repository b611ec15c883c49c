#include "app/plugin_host.hpp"

#include <array>
#include <functional>
#include <string>

#include "base/log.hpp"
#include "base/rng.hpp"

namespace warmroute::app {
namespace {

std::string full_name(std::string_view name) {
  return name.starts_with("warmroute_") ? std::string(name) : "kthena_router_" + std::string(name);
}

// Children of one family by model: each request asks for the same few, so a small direct-mapped table of the thread
// stands in front of the registry's lock. `Child` is a reference into the registry, which outlives the threads that
// count.
template <class Child, class Make>
Child& child_for(const void* family, std::string_view model, const Make& make) {
  struct Entry {
    const void* family = nullptr;
    std::string model;
    Child* child = nullptr;
  };
  thread_local std::array<Entry, 256> table;
  const auto slot =
      (std::hash<std::string_view>()(model) + reinterpret_cast<std::uintptr_t>(family) / 16 * 31) % table.size();
  auto& entry = table[slot];
  if (entry.family != family || entry.model != model) {
    entry.child = &make();
    entry.model = model;
    entry.family = family;
  }
  return *entry.child;
}

class Counters final : public CounterByModel {
 public:
  Counters(metrics::Registry& registry, std::string name, std::string help)
      : registry_(registry), name_(std::move(name)), help_(std::move(help)) {}
  void add(std::string_view model, double amount) noexcept override {
    child_for<metrics::Counter>(this, model, [&]() -> metrics::Counter& {
      return registry_.counter(name_, help_, {{"model", std::string(model)}});
    }).add(amount);
  }

 private:
  metrics::Registry& registry_;
  std::string name_, help_;
};

class Histograms final : public HistogramByModel {
 public:
  Histograms(metrics::Registry& registry, std::string name, std::string help, std::span<const double> bounds)
      : registry_(registry), name_(std::move(name)), help_(std::move(help)), bounds_(bounds.begin(), bounds.end()) {}
  void observe(std::string_view model, double value) noexcept override {
    child_for<metrics::Histogram>(this, model, [&]() -> metrics::Histogram& {
      return registry_.histogram(name_, help_, bounds_, {{"model", std::string(model)}});
    }).observe(value);
  }

 private:
  metrics::Registry& registry_;
  std::string name_, help_;
  std::vector<double> bounds_;
};

}  // namespace

PluginHost::PluginHost(metrics::Registry& registry) : registry_(registry), hash_seed_(base::random64()) {}

void PluginHost::info(std::string_view message) { log::write(log::Level::info, message); }
void PluginHost::warning(std::string_view message) { log::write(log::Level::warning, message); }
void PluginHost::error(std::string_view message) { log::write(log::Level::error, message); }
std::uint64_t PluginHost::random() noexcept { return base::random64(); }

std::shared_ptr<CounterByModel> PluginHost::counter_by_model(std::string_view name, std::string_view help) {
  return std::make_shared<Counters>(registry_, full_name(name), std::string(help));
}

std::shared_ptr<HistogramByModel> PluginHost::histogram_by_model(std::string_view name, std::string_view help,
                                                                 std::span<const double> buckets) {
  return std::make_shared<Histograms>(registry_, full_name(name), std::string(help), buckets);
}

void PluginHost::gauge(std::string_view name, std::string_view help, std::function<double()> read) {
  registry_.gauge_callback(full_name(name), help, std::move(read));
}

void PluginHost::pod_joined(PodId pod) const {
  for (const auto& hook : joined_) hook(pod);
}

void PluginHost::pod_left(PodId pod) const {
  for (const auto& hook : left_) hook(pod);
}

void PluginHost::engine_facts(PodId pod, const EngineFacts& facts) const {
  for (const auto& hook : facts_) hook(pod, facts);
}

void PluginHost::start_background() {
  for (const auto& [period, job] : jobs_) background_.push_back(std::make_unique<net::PeriodicThread>(period, job));
}

void PluginHost::plugin_took(std::string_view model, std::string_view plugin, Role role, double seconds) noexcept {
  // Each request asks for the same few children: a small direct-mapped table in front of the registry's lock.
  struct Entry {
    std::string model;
    const char* plugin = nullptr;
    Role role = Role::filter;
    metrics::Histogram* histogram = nullptr;
  };
  thread_local std::array<Entry, 256> table;
  const auto slot = (std::hash<std::string_view>()(model) + reinterpret_cast<std::uintptr_t>(plugin.data()) / 8 * 31 +
                     static_cast<std::size_t>(role)) %
                    table.size();
  auto& entry = table[slot];
  if (entry.plugin != plugin.data() || entry.role != role || entry.model != model) {
    entry.histogram = &registry_.histogram("kthena_router_scheduler_plugin_duration_seconds",
                                           "Time a scheduler plugin took for one request", metrics::buckets_plugins,
                                           {{"model", std::string(model)},
                                            {"plugin", std::string(plugin)},
                                            {"type", role == Role::filter ? "filter" : "score"}});
    entry.model = model;
    entry.plugin = plugin.data();
    entry.role = role;
  }
  entry.histogram->observe(seconds);
}

}  // namespace warmroute::app
