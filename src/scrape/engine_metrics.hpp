#pragma once
// Step: from an engine's Prometheus text to a load sample. Pure; looks at the few series it needs and skips the
// thousands of others with one search for the line end each.

#include <cstdint>
#include <optional>
#include <string_view>

#include "model/resources.hpp"
#include "warmroute/pod_view.hpp"

namespace warmroute::scrape {

/// Running totals of a histogram, added up over its series.
struct HistogramTotals {
  double sum_seconds = 0;
  double count = 0;
};

/// What one exposition says. A family that is missing is empty, not 0: an engine with renamed metrics must not look
/// idle. A histogram of which a sum or count cannot be read is empty too, as their quotient would mean nothing.
struct EngineMetrics {
  std::optional<double> running, waiting;  ///< added up over the series (data-parallel ranks)
  /// 0..1. The fullest rank: an average hides that one rank already evicts and queues, and the engine, not the
  /// router, picks the rank of a request.
  std::optional<double> kv_usage;
  std::optional<HistogramTotals> ttft, tpot;
  std::optional<double> process_start;  ///< Unix seconds
  /// Tokens that the KV cache holds, 1 to 2^52, added up over the ranks: vLLM's blocks times their size, SGLang's
  /// max_total_num_tokens or pages times their size.
  std::optional<std::int64_t> kv_tokens;
};

/// Reads the families of the given engine under all the names they had: where an old and a new name are both
/// exposed, only the new one counts. Lines that are no valid sample (also NaN, infinite and negative values) are
/// skipped. Never throws, any bytes are allowed.
[[nodiscard]] EngineMetrics parse_engine_metrics(std::string_view text, model::Engine engine) noexcept;

/// Average of a histogram over the time since the previous scrape.
class LatencyAverage {
 public:
  /// 0 when there is nothing to say (first scrape, no new observations). A counter below the previous one is a
  /// restart: then the average since the restart.
  [[nodiscard]] double next(const HistogramTotals& totals) noexcept;

 private:
  std::optional<HistogramTotals> previous_;
};

/// Turns the scrapes of one incarnation into samples.
class SampleBuilder {
 public:
  /// Empty when running or waiting is unknown. Latencies keep their last measured value while no request finishes.
  /// An unknown KV use reads 0.5, which scores as gpu-usage scores an unknown pod (decision 3.15).
  [[nodiscard]] std::optional<LoadSample> next(const EngineMetrics& metrics) noexcept;

 private:
  LatencyAverage ttft_, tpot_;
  double last_ttft_ = 0, last_tpot_ = 0;
};

}  // namespace warmroute::scrape
