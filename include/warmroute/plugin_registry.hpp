#pragma once
// How plugins are made: Args (their `args` block), Host (what the router offers them), Registry (name -> factory).

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "warmroute/plugin.hpp"
#include "warmroute/result.hpp"
#include "warmroute/value.hpp"

namespace warmroute {

/// A plugin's `args` block. Keys are matched without regard to case, the last of equal keys counts.
class Args {
 public:
  Args() = default;
  explicit Args(Value root, std::string origin = {}) : root_(std::move(root)), origin_(std::move(origin)) {}

  /// File and line of the block for messages, e.g. `routerConfiguration.yaml:4`; may be empty.
  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }
  /// The block is absent, null or a mapping; anything else cannot be read at all.
  [[nodiscard]] bool readable() const noexcept;
  [[nodiscard]] const Value* find(std::string_view key) const noexcept;
  /// Integers, and fractions without a fractional part (16.0, 4e0). nullopt: absent or null. Error: another type.
  [[nodiscard]] Result<std::optional<std::int64_t>> integer(std::string_view key) const;
  /// Any number. nullopt: absent or null.
  [[nodiscard]] Result<std::optional<double>> number(std::string_view key) const;
  [[nodiscard]] Result<std::optional<bool>> boolean(std::string_view key) const;
  [[nodiscard]] Result<std::optional<std::string>> text(std::string_view key) const;
  /// Keys that are not among `known` (case-insensitive), for the warning about misspelled names.
  [[nodiscard]] std::vector<std::string> unknown(std::span<const std::string_view> known) const;
  [[nodiscard]] const Value& root() const noexcept { return root_; }

 private:
  Value root_;
  std::string origin_;
};

/// A metric family with the one label `model`. Values are configured names only. Thread-safe, does not block.
class CounterByModel {
 public:
  virtual ~CounterByModel() = default;
  virtual void add(std::string_view model, double amount) noexcept = 0;
};
class HistogramByModel {
 public:
  virtual ~HistogramByModel() = default;
  virtual void observe(std::string_view model, double value) noexcept = 0;
};

/// What the router offers a plugin. Outlives every plugin. Names of metrics are given without the prefix
/// `kthena_router_`; one that begins with `warmroute_` is taken as it is.
class Host {
 public:
  virtual ~Host() = default;
  virtual void info(std::string_view message) = 0;
  virtual void warning(std::string_view message) = 0;
  virtual void error(std::string_view message) = 0;
  /// Uniform 64 bits from the calling thread's generator.
  [[nodiscard]] virtual std::uint64_t random() noexcept = 0;
  /// One random value per process: keys hash chains, so that clients cannot aim at collisions.
  [[nodiscard]] virtual std::uint64_t hash_seed() const noexcept = 0;
  [[nodiscard]] virtual std::shared_ptr<CounterByModel> counter_by_model(std::string_view name,
                                                                         std::string_view help) = 0;
  [[nodiscard]] virtual std::shared_ptr<HistogramByModel> histogram_by_model(std::string_view name,
                                                                             std::string_view help,
                                                                             std::span<const double> buckets) = 0;
  /// `read` is called at each scrape of /metrics, on the control thread.
  virtual void gauge(std::string_view name, std::string_view help, std::function<double()> read) = 0;
  /// Called on the control thread for each incarnation that becomes routable, before any request can pick it.
  virtual void on_pod_joined(std::function<void(PodId)> hook) = 0;
  /// Called on the control thread for each incarnation that stops being routable, on every path. Workers may
  /// still finish requests to it afterwards.
  virtual void on_pod_left(std::function<void(PodId)> hook) = 0;
  /// Called on the control thread when the engine of a routable pod has told about itself for the first time, and
  /// when that changed.
  virtual void on_engine_facts(std::function<void(PodId, const EngineFacts&)> hook) = 0;
  /// `job` runs on a thread of its own each `period`, and a last time when the last request has ended. It may wait
  /// for files. It must not throw.
  virtual void in_background(std::chrono::seconds period, std::function<void()> job) = 0;
};

using Factory = std::function<Result<std::shared_ptr<Plugin>>(const Args&, Host&)>;

class Registry {
 public:
  /// \throws std::logic_error when the name is taken: two registration lines in plugins/registered.cpp.
  void add(std::string name, Factory factory);
  /// Error with Errc::unknown_plugin and the list of known names in its detail, or the factory's own error.
  [[nodiscard]] Result<std::shared_ptr<Plugin>> make(std::string_view name, const Args& args, Host& host) const;
  [[nodiscard]] bool knows(std::string_view name) const { return factories_.find(name) != factories_.end(); }
  [[nodiscard]] std::string known_names() const;  ///< sorted, separated by ", "

 private:
  std::map<std::string, Factory, std::less<>> factories_;
};

/// One warning for each argument of `plugin` that is not among `known`.
void warn_unknown_args(std::string_view plugin, const Args& args, std::span<const std::string_view> known, Host& host);

/// Defined in plugins/registered.cpp: one line per plugin.
void register_plugins(Registry& registry);

}  // namespace warmroute
