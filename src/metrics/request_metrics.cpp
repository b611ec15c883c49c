#include "metrics/request_metrics.hpp"

#include <array>
#include <chrono>
#include <string>

#include "metrics/key_cache.hpp"
#include "metrics/thread_slot.hpp"

namespace warmroute::metrics {
namespace {

using model::RequestRecord;

constexpr const char* requests_name = "kthena_router_requests_total";
constexpr const char* requests_help = "Requests by final status and cause.";
constexpr const char* duration_name = "kthena_router_request_duration_seconds";
constexpr const char* duration_help = "Time from the complete request body to the end of the answer, in seconds.";
constexpr const char* prefill_name = "kthena_router_request_prefill_duration_seconds";
constexpr const char* prefill_help = "Time an attempt on a prefill pod took, in seconds.";
constexpr const char* decode_name = "kthena_router_request_decode_duration_seconds";
constexpr const char* decode_help = "Time an attempt on a decode pod took, its whole answer included, in seconds.";
constexpr const char* tokens_name = "kthena_router_tokens_total";
constexpr const char* tokens_help = "Tokens: input as estimated here, output as the engine reported.";
constexpr const char* downstream_name = "kthena_router_active_downstream_requests";
constexpr const char* downstream_help = "Requests of clients that are being served.";
constexpr const char* upstream_name = "kthena_router_active_upstream_requests";
constexpr const char* upstream_help = "Requests that are open to engines.";

/// Shared with the registry, which may drop a series while a thread still has it cached.
struct Series {
  std::shared_ptr<Counter> requests;
  std::shared_ptr<Histogram> duration;
  std::shared_ptr<Counter> input_tokens, output_tokens;  ///< null until tokens were seen
};

struct ThreadCache {
  std::uint64_t generation = 0;
  KeyBuilder key;
  KeyCache<Series> series;
  KeyCache<std::shared_ptr<Gauge>> gauges;
  KeyCache<std::shared_ptr<Histogram>> phases;
};

std::string_view or_none(std::string_view value) noexcept { return value.empty() ? "none" : value; }
std::string_view backend_type(bool bound) noexcept { return bound ? "model_server" : "unresolved"; }

std::string_view error_type(const RequestRecord& record) noexcept {
  if (!record.metric_error_type.empty()) return record.metric_error_type;
  if (record.error_type == "request_parsing") return record.error_type;  // decision 3.17
  return record.status >= 400 ? "request_failed" : "successful_request";
}

double seconds_of(const RequestRecord& record) noexcept {
  constexpr RequestRecord::Steady::time_point unset{};
  const auto from = record.parsed != unset ? record.parsed : record.started;
  const auto to = record.finished != unset ? record.finished : RequestRecord::Steady::now();
  return to > from ? std::chrono::duration<double>(to - from).count() : 0;
}

class RequestMetricsImpl final : public RequestMetrics {
 public:
  explicit RequestMetricsImpl(Registry& registry)
      : registry_(registry),
        active_(registry.gauge("kthena_router_active_requests", "Requests that are being handled.")) {}

  [[nodiscard]] GaugeGuard active_request() override { return GaugeGuard(active_); }

  [[nodiscard]] GaugeGuard active_downstream(std::string_view model_label) override {
    const auto resolve = [&] {
      return registry_.shared_gauge(downstream_name, downstream_help, {{"model", std::string(model_label)}});
    };
    ThreadCache* cache = this_cache();
    if (cache == nullptr) return GaugeGuard(*resolve());
    return cached_gauge(*cache, cache->key.start().number(0).add(model_label).key(), resolve);
  }

  [[nodiscard]] GaugeGuard active_upstream(std::string_view model_server, std::string_view model_route,
                                           std::string_view upstream_model) override {
    const auto resolve = [&] {
      const std::string server(or_none(model_server));
      return registry_.shared_gauge(upstream_name, upstream_help,
                                    {{"model_server", server},
                                     {"model_route", std::string(or_none(model_route))},
                                     {"backend_type", std::string(backend_type(!model_server.empty()))},
                                     {"backend_name", server},
                                     {"upstream_model", std::string(or_none(upstream_model))}});
    };
    ThreadCache* cache = this_cache();
    if (cache == nullptr) return GaugeGuard(*resolve());
    const auto key = cache->key.start().number(1).add(model_server).add(model_route).add(upstream_model).key();
    return cached_gauge(*cache, key, resolve);
  }

  void phase_took(const RequestRecord& record, Phase phase, int status, double seconds) noexcept override {
    const bool prefill = phase == Phase::prefill;
    const auto resolve = [&] {
      return registry_.shared_histogram(prefill ? prefill_name : decode_name, prefill ? prefill_help : decode_help,
                                        buckets_requests,
                                        {{"model", std::string(record.model_label)},
                                         {"path", std::string(model::name(record.path_label))},
                                         {"status_code", std::to_string(status)}});
    };
    try {
      ThreadCache* cache = this_cache();
      if (cache == nullptr) return resolve()->observe(seconds);
      const auto key = cache->key.start()
                           .number(static_cast<std::uint32_t>(status))
                           .number(static_cast<std::uint32_t>(record.path_label) << 1U | (prefill ? 1U : 0U))
                           .add(record.model_label)
                           .key();
      auto* known = cache->phases.find(key);
      (known != nullptr ? *known : cache->phases.insert(key, resolve()))->observe(seconds);
    } catch (const std::bad_alloc&) {  // a new series could not be made: one observation less
    }
  }

  void finished(const RequestRecord& record) override {
    if (!record.counted && record.input_tokens <= 0 && record.output_tokens <= 0) return;
    ThreadCache* cache = this_cache();
    if (cache == nullptr) {
      Series series;
      count(record, series);
      return;
    }
    const auto key = cache->key.start()
                         .number(static_cast<std::uint32_t>(record.status))
                         .number(static_cast<std::uint32_t>(record.path_label) << 1U | (record.bound ? 1U : 0U))
                         .add(record.model_label)
                         .add(error_type(record))
                         .add(record.model_route)
                         .add(record.model_server)
                         .add(record.upstream_model)
                         .key();
    Series* series = cache->series.find(key);
    count(record, series != nullptr ? *series : cache->series.insert(key, {}));
  }

 private:
  /// Null for the threads beyond the owned slots: they resolve each time.
  ThreadCache* this_cache() {
    const auto slot = thread_slot();
    if (slot == shared_slot) return nullptr;
    auto& cache = caches_[slot];
    if (!cache) cache = std::make_unique<ThreadCache>();
    if (const auto generation = registry_.generation(); cache->generation != generation) {
      cache->series.clear();
      cache->gauges.clear();
      cache->phases.clear();
      cache->generation = generation;
    }
    return cache.get();
  }

  template <class Resolve>
  GaugeGuard cached_gauge(ThreadCache& cache, std::string_view key, const Resolve& resolve) {
    auto* gauge = cache.gauges.find(key);
    return GaugeGuard(gauge != nullptr ? **gauge : *cache.gauges.insert(key, resolve()));
  }

  void count(const RequestRecord& record, Series& series) {
    if (record.counted) {
      if (!series.requests) resolve_requests(record, series);
      series.requests->inc();
      series.duration->observe(seconds_of(record));
    }
    if (record.input_tokens > 0) {
      if (!series.input_tokens) series.input_tokens = tokens(record, "input");
      series.input_tokens->add(static_cast<double>(record.input_tokens));
    }
    if (record.output_tokens > 0) {
      if (!series.output_tokens) series.output_tokens = tokens(record, "output");
      series.output_tokens->add(static_cast<double>(record.output_tokens));
    }
  }

  static LabelPairs common_labels(const RequestRecord& record) {
    return {{"model", std::string(record.model_label)},
            {"path", std::string(model::name(record.path_label))},
            {"model_route", std::string(or_none(record.bound ? record.model_route : std::string_view{}))},
            {"backend_type", std::string(backend_type(record.bound))},
            {"backend_name", std::string(or_none(record.bound ? record.model_server : std::string_view{}))},
            {"upstream_model", std::string(or_none(record.bound ? record.upstream_model : std::string_view{}))}};
  }

  void resolve_requests(const RequestRecord& record, Series& series) {
    LabelPairs labels = common_labels(record);
    labels.emplace_back("status_code", std::to_string(record.status));
    series.duration = registry_.shared_histogram(duration_name, duration_help, buckets_requests, labels);
    labels.emplace_back("error_type", std::string(error_type(record)));
    series.requests = registry_.shared_counter(requests_name, requests_help, labels);
  }

  std::shared_ptr<Counter> tokens(const RequestRecord& record, const char* type) {
    LabelPairs labels = common_labels(record);
    labels.emplace_back("token_type", type);
    return registry_.shared_counter(tokens_name, tokens_help, labels);
  }

  Registry& registry_;
  Gauge& active_;
  /// Each element is used by the thread that owns the slot, only.
  std::array<std::unique_ptr<ThreadCache>, owned_slots> caches_;
};

}  // namespace

std::unique_ptr<RequestMetrics> RequestMetrics::create(Registry& registry) {
  return std::make_unique<RequestMetricsImpl>(registry);
}

}  // namespace warmroute::metrics
