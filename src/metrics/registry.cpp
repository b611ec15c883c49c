#include "metrics/registry.hpp"

#include <prometheus/collectable.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <sstream>

#include "base/log.hpp"
#include "metrics/cell_store.hpp"
#include "metrics/process_series.hpp"

namespace warmroute::metrics {
namespace {

constexpr std::array bounds_requests{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0};
constexpr std::array bounds_plugins{0.001, 0.005, 0.01, 0.05, 0.1, 0.5};
constexpr std::array bounds_ratio{0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0};

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

/// One series: its cells go back to the store with the last reference.
class Series {
 public:
  Series(CellStore& store, std::uint32_t cells) : store_(store), range_(store.acquire(cells)) {}
  Series(const Series&) = delete;
  Series& operator=(const Series&) = delete;
  virtual ~Series() { store_.release(range_); }
  virtual void fill(ClientMetric& out) const = 0;
  /// False while a GaugeGuard may still point here.
  [[nodiscard]] virtual bool unguarded() const noexcept { return true; }

 protected:
  void add_to(std::size_t cell, double amount) noexcept {
    store_.add(range_.first + static_cast<std::uint32_t>(cell), amount);
  }
  [[nodiscard]] double sum_of(std::size_t cell) const noexcept {
    return store_.sum(range_.first + static_cast<std::uint32_t>(cell));
  }

 private:
  CellStore& store_;
  CellStore::Range range_;
};

class CounterSeries final : public Series, public Counter {
 public:
  explicit CounterSeries(CellStore& store) : Series(store, 1) {}
  void add(double amount) noexcept override {
    if (amount > 0) add_to(0, amount);  // a counter never decreases; also drops NaN
  }
  [[nodiscard]] double value() const noexcept override { return sum_of(0); }
  void fill(ClientMetric& out) const override { out.counter.value = value(); }
};

class GaugeSeries final : public Series, public Gauge {
 public:
  explicit GaugeSeries(CellStore& store) : Series(store, 1) {}
  void add(double amount) noexcept override { add_to(0, amount); }
  void set(double value) noexcept override { set_.store(value, std::memory_order_relaxed); }
  [[nodiscard]] double value() const noexcept override { return set_.load(std::memory_order_relaxed) + sum_of(0); }
  void fill(ClientMetric& out) const override { out.gauge.value = value(); }
  [[nodiscard]] bool unguarded() const noexcept override { return sum_of(0) == 0; }

 private:
  std::atomic<double> set_{0};
};

class HistogramSeries final : public Series, public Histogram {
 public:
  /// `bounds` belong to the family, which outlives its series.
  HistogramSeries(CellStore& store, std::span<const double> bounds)
      : Series(store, static_cast<std::uint32_t>(bounds.size() + 2)), bounds_(bounds) {}
  void observe(double value) noexcept override {
    if (std::isnan(value)) return;
    const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
    add_to(static_cast<std::size_t>(bucket), 1);
    add_to(bounds_.size() + 1, value);
  }
  void fill(ClientMetric& out) const override {
    std::uint64_t cumulative = 0;
    for (std::size_t i = 0; i <= bounds_.size(); ++i) {
      cumulative += static_cast<std::uint64_t>(sum_of(i));
      const double bound = i < bounds_.size() ? bounds_[i] : std::numeric_limits<double>::infinity();
      out.histogram.bucket.push_back({cumulative, bound});
    }
    out.histogram.sample_count = cumulative;
    out.histogram.sample_sum = sum_of(bounds_.size() + 1);
  }

 private:
  std::span<const double> bounds_;
};

struct Family {
  MetricType type = MetricType::Untyped;
  std::string help;
  std::vector<double> bounds;
  std::map<LabelPairs, std::shared_ptr<Series>> series;  ///< shared with caches, see Registry::shared_counter
  std::function<double()> read;                          ///< instead of series
};

class RegistryImpl final : public Registry, private prometheus::Collectable {
 public:
  Counter& counter(std::string_view name, std::string_view help, const LabelPairs& labels) override {
    return *shared_counter(name, help, labels);
  }
  Gauge& gauge(std::string_view name, std::string_view help, const LabelPairs& labels) override {
    return *shared_gauge(name, help, labels);
  }
  Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                       const LabelPairs& labels) override {
    return *shared_histogram(name, help, bounds, labels);
  }

  std::shared_ptr<Counter> shared_counter(std::string_view name, std::string_view help,
                                          const LabelPairs& labels) override {
    return child<CounterSeries>(MetricType::Counter, name, help, {}, labels);
  }
  std::shared_ptr<Gauge> shared_gauge(std::string_view name, std::string_view help, const LabelPairs& labels) override {
    return child<GaugeSeries>(MetricType::Gauge, name, help, {}, labels);
  }
  std::shared_ptr<Histogram> shared_histogram(std::string_view name, std::string_view help,
                                              std::span<const double> bounds, const LabelPairs& labels) override {
    assert(std::is_sorted(bounds.begin(), bounds.end()));
    return child<HistogramSeries>(MetricType::Histogram, name, help, bounds, labels);
  }

  void gauge_callback(std::string_view name, std::string_view help, std::function<double()> read) override {
    callback(MetricType::Gauge, name, help, std::move(read));
  }
  void counter_callback(std::string_view name, std::string_view help, std::function<double()> read) override {
    callback(MetricType::Counter, name, help, std::move(read));
  }

  void remove(std::string_view label, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    bool any = false;
    for (auto& [name, family] : families_) {
      for (auto it = family.series.begin(); it != family.series.end();) {
        const auto carries = [&](const auto& pair) { return pair.first == label && pair.second == value; };
        if (std::none_of(it->first.begin(), it->first.end(), carries)) {
          ++it;
          continue;
        }
        removed_.push_back(std::move(it->second));
        it = family.series.erase(it);
        any = true;
      }
    }
    if (any) generation_.fetch_add(1, std::memory_order_release);
    reap();
  }

  [[nodiscard]] std::uint64_t generation() const noexcept override {
    return generation_.load(std::memory_order_acquire);
  }

  [[nodiscard]] std::string serialize() override {
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, Collect());
    return out.str();
  }

 private:
  template <class T>
  std::shared_ptr<T> child(MetricType type, std::string_view name, std::string_view help,
                           std::span<const double> bounds, LabelPairs labels) {
    std::sort(labels.begin(), labels.end());  // the order in which Go prints them
    const std::lock_guard lock(mutex_);
    Family& family = family_of(type, name, help, bounds);
    auto& series = family.series[std::move(labels)];
    if (!series) {
      if constexpr (std::is_same_v<T, HistogramSeries>)
        series = std::make_shared<T>(cells_, family.bounds);
      else
        series = std::make_shared<T>(cells_);
    }
    return std::static_pointer_cast<T>(series);
  }

  Family& family_of(MetricType type, std::string_view name, std::string_view help, std::span<const double> bounds) {
    if (const auto it = families_.find(name); it != families_.end()) {
      if (it->second.type == type) return it->second;
      assert(false && "metric name used with two types");
      log::error("metric {} is used with two types; the second is not shown", name);
      // Counted in a family of its own that is never printed.
      Family& hidden = hidden_[{std::string(name), type}];
      hidden.type = type;
      if (hidden.bounds.empty()) hidden.bounds.assign(bounds.begin(), bounds.end());
      return hidden;
    }
    Family& family = families_[std::string(name)];
    family.type = type;
    family.help = help;
    family.bounds.assign(bounds.begin(), bounds.end());
    return family;
  }

  void callback(MetricType type, std::string_view name, std::string_view help, std::function<double()> read) {
    const std::lock_guard lock(mutex_);
    family_of(type, name, help, {}).read = std::move(read);
  }

  /// Frees removed series that no cache and no guard can reach. A guard needs no reference of its own: it holds the
  /// gauge above zero, and new ones are only made by who has a reference.
  void reap() const {
    std::erase_if(removed_, [](const std::shared_ptr<Series>& series) {
      if (series.use_count() != 1) return false;
      std::atomic_thread_fence(std::memory_order_acquire);
      return series->unguarded();
    });
  }

  [[nodiscard]] std::vector<MetricFamily> Collect() const override {
    std::vector<MetricFamily> out;
    std::vector<std::pair<std::size_t, std::function<double()>>> reads;
    {
      const std::lock_guard lock(mutex_);
      reap();
      for (const auto& [name, family] : families_) {
        if (!family.read && family.series.empty()) continue;
        MetricFamily& shown = out.emplace_back(MetricFamily{name, family.help, family.type, {}});
        if (family.read) reads.emplace_back(out.size() - 1, family.read);
        for (const auto& [labels, series] : family.series) {
          ClientMetric& metric = shown.metric.emplace_back();
          for (const auto& [label, value] : labels) metric.label.push_back({label, value});
          series->fill(metric);
        }
      }
    }
    // Without the lock: what they read may count something itself.
    for (const auto& [index, read] : reads) {
      ClientMetric& metric = out[index].metric.emplace_back();
      metric.counter.value = metric.gauge.value = read();
    }
    collect_process_series(out);
    return out;
  }

  CellStore cells_;
  mutable std::mutex mutex_;
  std::map<std::string, Family, std::less<>> families_;
  std::map<std::pair<std::string, MetricType>, Family> hidden_;
  mutable std::vector<std::shared_ptr<Series>> removed_;
  std::atomic<std::uint64_t> generation_{0};
};

}  // namespace

const std::span<const double> buckets_requests{bounds_requests};
const std::span<const double> buckets_plugins{bounds_plugins};
const std::span<const double> buckets_ratio{bounds_ratio};

std::unique_ptr<Registry> Registry::create() { return std::make_unique<RegistryImpl>(); }

}  // namespace warmroute::metrics
