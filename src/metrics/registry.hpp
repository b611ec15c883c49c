#pragma once
// All series of the process. Every thread that counts has a shard of its own (no lock, no shared cache line); the
// shards are added up when /metrics is read. prometheus-cpp's types and serializer make the text.
// Children are resolved once, when the labelled thing appears, and then used by pointer; they live as long as the
// registry or until remove().

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace warmroute::metrics {

using LabelPairs = std::vector<std::pair<std::string, std::string>>;

class Counter {
 public:
  virtual ~Counter() = default;
  virtual void add(double amount) noexcept = 0;
  void inc() noexcept { add(1); }
  [[nodiscard]] virtual double value() const noexcept = 0;
};
class Gauge {
 public:
  virtual ~Gauge() = default;
  virtual void add(double amount) noexcept = 0;
  /// Control thread only; do not mix with add().
  virtual void set(double value) noexcept = 0;
  [[nodiscard]] virtual double value() const noexcept = 0;
};
class Histogram {
 public:
  virtual ~Histogram() = default;
  virtual void observe(double value) noexcept = 0;
};

/// Bucket bounds of spec 18.4.
extern const std::span<const double> buckets_requests;  // A
extern const std::span<const double> buckets_plugins;   // B
extern const std::span<const double> buckets_ratio;     // R

class Registry {
 public:
  static std::unique_ptr<Registry> create();
  virtual ~Registry() = default;

  /// Names are complete (kthena_router_requests_total). The same name and labels give the same object. Thread-safe;
  /// takes a lock, so not once per request. Fails the process in debug when a name is used with two types.
  virtual Counter& counter(std::string_view name, std::string_view help, const LabelPairs& labels = {}) = 0;
  virtual Gauge& gauge(std::string_view name, std::string_view help, const LabelPairs& labels = {}) = 0;
  virtual Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                               const LabelPairs& labels = {}) = 0;
  /// The same objects with shared ownership, for caches that cannot be told when a series is removed: what is counted
  /// through them afterwards is not shown any more. Held until generation() changes.
  virtual std::shared_ptr<Counter> shared_counter(std::string_view name, std::string_view help,
                                                  const LabelPairs& labels) = 0;
  virtual std::shared_ptr<Gauge> shared_gauge(std::string_view name, std::string_view help,
                                              const LabelPairs& labels) = 0;
  virtual std::shared_ptr<Histogram> shared_histogram(std::string_view name, std::string_view help,
                                                      std::span<const double> bounds, const LabelPairs& labels) = 0;
  /// Grows with each remove() that removed something.
  [[nodiscard]] virtual std::uint64_t generation() const noexcept = 0;
  /// Evaluated at each collection, on the thread that collects. A second registration replaces the first.
  virtual void gauge_callback(std::string_view name, std::string_view help, std::function<double()> read) = 0;
  virtual void counter_callback(std::string_view name, std::string_view help, std::function<double()> read) = 0;
  /// Removes all series (of any family) that carry the label, e.g. ("pod", "default/a"). References to them must be
  /// gone; shared pointers and GaugeGuards may remain.
  virtual void remove(std::string_view label, std::string_view value) = 0;
  /// The exposition text (text/plain; version=0.0.4), process_* series included.
  [[nodiscard]] virtual std::string serialize() = 0;
};

}  // namespace warmroute::metrics
