#include "app/plugin_host.hpp"

#include <array>
#include <map>
#include <string>
#include <unordered_map>

#include "base/log.hpp"
#include "base/rng.hpp"

namespace warmroute::app {
namespace {

const std::string prefix = "kthena_router_";

// Children of one family by model, found without a lock after a thread's first use. `Child` is a reference into the
// registry, which outlives the threads that count.
template <class Child, class Make>
Child& child_for(const void* family, std::string_view model, const Make& make) {
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };
  using ByModel = std::unordered_map<std::string, Child*, Hash, std::equal_to<>>;
  thread_local std::unordered_map<const void*, ByModel> cache;
  auto& by_model = cache[family];
  if (const auto found = by_model.find(model); found != by_model.end()) return *found->second;
  Child& child = make();
  by_model.emplace(std::string(model), &child);
  return child;
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
  return std::make_shared<Counters>(registry_, prefix + std::string(name), std::string(help));
}

std::shared_ptr<HistogramByModel> PluginHost::histogram_by_model(std::string_view name, std::string_view help,
                                                                 std::span<const double> buckets) {
  return std::make_shared<Histograms>(registry_, prefix + std::string(name), std::string(help), buckets);
}

void PluginHost::gauge(std::string_view name, std::string_view help, std::function<double()> read) {
  registry_.gauge_callback(prefix + std::string(name), help, std::move(read));
}

void PluginHost::pod_joined(PodId pod) const {
  for (const auto& hook : joined_) hook(pod);
}

void PluginHost::pod_left(PodId pod) const {
  for (const auto& hook : left_) hook(pod);
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
