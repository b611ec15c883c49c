#include "app/plugin_host.hpp"

#include <functional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/rng.hpp"

namespace warmroute::app {
namespace {

std::string full_name(std::string_view name) {
  return name.starts_with("warmroute_") ? std::string(name) : "kthena_router_" + std::string(name);
}

// What one thread has already looked up in the registry, which outlives the threads that count. Labels are names of the
// configuration, so there are few; names of routes that went stay until the limit is reached.
class ModelChildren {
 public:
  /// `family` and `part` say which child of the model's it is.
  template <class Child, class Make>
  Child& get(std::string_view model, const void* family, unsigned part, const Make& make) {
    if (last_ == nullptr || last_name_ != model) find(model);
    for (const auto& known : *last_)
      if (known.family == family && known.part == part) return *static_cast<Child*>(known.child);
    Child& child = make();
    last_->push_back({family, part, &child});
    return child;
  }

 private:
  struct Known {
    const void* family;
    unsigned part;
    void* child;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept { return std::hash<std::string_view>()(text); }
  };
  static constexpr std::size_t limit = 64 * 1024;

  // Consecutive calls are about one request.
  void find(std::string_view model) {
    auto found = by_model_.find(model);
    if (found == by_model_.end()) {
      if (by_model_.size() >= limit) by_model_.clear();
      found = by_model_.emplace(std::string(model), std::vector<Known>()).first;
    }
    last_name_ = found->first;
    last_ = &found->second;
  }

  std::unordered_map<std::string, std::vector<Known>, Hash, std::equal_to<>> by_model_;
  std::string_view last_name_;
  std::vector<Known>* last_ = nullptr;
};

ModelChildren& children_of_thread() {
  thread_local ModelChildren children;
  return children;
}

class Counters final : public CounterByModel {
 public:
  Counters(metrics::Registry& registry, std::string name, std::string help)
      : registry_(registry), name_(std::move(name)), help_(std::move(help)) {}
  void add(std::string_view model, double amount) noexcept override {
    children_of_thread()
        .get<metrics::Counter>(model, this, 0,
                               [&]() -> metrics::Counter& {
                                 return registry_.counter(name_, help_, {{"model", std::string(model)}});
                               })
        .add(amount);
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
    children_of_thread()
        .get<metrics::Histogram>(model, this, 0,
                                 [&]() -> metrics::Histogram& {
                                   return registry_.histogram(name_, help_, bounds_, {{"model", std::string(model)}});
                                 })
        .observe(value);
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
  auto& histogram = children_of_thread().get<metrics::Histogram>(
      model, plugin.data(), role == Role::filter ? 1 : 2, [&]() -> metrics::Histogram& {
        return registry_.histogram("kthena_router_scheduler_plugin_duration_seconds",
                                   "Time a scheduler plugin took for one request", metrics::buckets_plugins,
                                   {{"model", std::string(model)},
                                    {"plugin", std::string(plugin)},
                                    {"type", role == Role::filter ? "filter" : "score"}});
      });
  histogram.observe(seconds);
}

}  // namespace warmroute::app
