#include "scrape/engine_metrics.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

namespace warmroute::scrape {
namespace {

enum class Field : std::uint8_t {
  running,
  waiting,
  kv_usage,
  ttft_sum,
  ttft_count,
  tpot_sum,
  tpot_count,
  process_start,
  kv_tokens
};
constexpr std::size_t field_count = 9;
constexpr double most_kv_tokens = 0x1p52;

struct Series {
  std::string_view name;
  Field field;
  bool old_name = false;   ///< counts only where no series of the new name was seen
  bool in_labels = false;  ///< an info series: the value is in its labels
};

constexpr std::array vllm_series{
    Series{"vllm:num_requests_running", Field::running},
    Series{"vllm:num_requests_waiting", Field::waiting},
    Series{"vllm:kv_cache_usage_perc", Field::kv_usage},
    Series{"vllm:gpu_cache_usage_perc", Field::kv_usage, true},
    Series{"vllm:time_to_first_token_seconds_sum", Field::ttft_sum},
    Series{"vllm:time_to_first_token_seconds_count", Field::ttft_count},
    Series{"vllm:inter_token_latency_seconds_sum", Field::tpot_sum},
    Series{"vllm:inter_token_latency_seconds_count", Field::tpot_count},
    Series{"vllm:time_per_output_token_seconds_sum", Field::tpot_sum, true},
    Series{"vllm:time_per_output_token_seconds_count", Field::tpot_count, true},
    Series{"vllm:cache_config_info", Field::kv_tokens, false, true},
    Series{"process_start_time_seconds", Field::process_start},
};
constexpr std::array sglang_series{
    Series{"sglang:num_running_reqs", Field::running},
    Series{"sglang:num_queue_reqs", Field::waiting},
    Series{"sglang:token_usage", Field::kv_usage},
    Series{"sglang:time_to_first_token_seconds_sum", Field::ttft_sum},
    Series{"sglang:time_to_first_token_seconds_count", Field::ttft_count},
    Series{"sglang:inter_token_latency_seconds_sum", Field::tpot_sum},
    Series{"sglang:inter_token_latency_seconds_count", Field::tpot_count},
    Series{"sglang:time_per_output_token_seconds_sum", Field::tpot_sum, true},
    Series{"sglang:time_per_output_token_seconds_count", Field::tpot_count, true},
    Series{"sglang:max_total_num_tokens", Field::kv_tokens},
    Series{"sglang:cache_config_info", Field::kv_tokens, true, true},
    Series{"process_start_time_seconds", Field::process_start},
};

constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

std::string_view trim_left(std::string_view text) noexcept {
  const auto start = text.find_first_not_of(" \t");
  return start == std::string_view::npos ? std::string_view{} : text.substr(start);
}

/// Skips `{…}` with its quoted values; npos when it does not end.
std::size_t label_end(std::string_view text) noexcept {
  bool quoted = false;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (quoted && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      quoted = !quoted;
    else if (text[i] == '}' && !quoted)
      return i + 1;
  }
  return std::string_view::npos;
}

/// The value of a label as a number; nothing when it is none ("None" of an engine that does not know yet).
std::optional<double> label_number(std::string_view labels, std::string_view name) noexcept {
  // Names are looked for behind a separator, and never inside a quoted value.
  bool quoted = false;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (quoted && labels[i] == '\\') {
      ++i;
      continue;
    }
    if (labels[i] == '"') quoted = !quoted;
    if (quoted || (labels[i] != '{' && labels[i] != ',')) continue;
    std::string_view rest = trim_left(labels.substr(i + 1));
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    if (!rest.starts_with("=\"")) continue;
    rest.remove_prefix(2);
    double value = 0;
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
    const bool whole = failure == std::errc{} && end != rest.data() + rest.size() && *end == '"';
    return whole && std::isfinite(value) && value > 0 ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

/// Blocks times tokens of a block, from the labels of vLLM's or SGLang's cache_config_info.
std::optional<double> cache_config_tokens(std::string_view labels) noexcept {
  labels = trim_left(labels);
  for (const auto& [blocks, size] : {std::pair("num_gpu_blocks", "block_size"), std::pair("num_pages", "page_size")}) {
    const auto count = label_number(labels, blocks);
    const auto tokens = label_number(labels, size);
    if (count && tokens) return *count * *tokens;
  }
  return std::nullopt;
}

/// The value behind the series name (and labels): finite and not negative, else nothing.
std::optional<double> sample_value(std::string_view rest) noexcept {
  rest = trim_left(rest);
  if (rest.starts_with('{')) {
    const auto end = label_end(rest);
    if (end == std::string_view::npos) return std::nullopt;
    rest = trim_left(rest.substr(end));
  }
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double value = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (failure != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  const char* const line_end = rest.data() + rest.size();
  if (end != line_end && !is_blank(*end)) return std::nullopt;  // "12abc"; a timestamp may follow
  return value;
}

/// One field under one of its two names, added up or maximised over the series.
struct Sum {
  double total = 0;
  double largest = 0;
  bool seen = false;
  bool broken = false;  ///< a series of it could not be read
};

class Reader {
 public:
  explicit Reader(std::span<const Series> series) noexcept : series_(series) {}

  void read_line(std::string_view line) noexcept {
    line = trim_left(line);
    if (line.empty() || (line[0] != series_[0].name[0] && line[0] != 'p')) return;
    if (line.back() == '\r') line.remove_suffix(1);
    for (const auto& series : series_) {
      if (!line.starts_with(series.name)) continue;
      const auto rest = line.substr(series.name.size());
      if (rest.empty() || (!is_blank(rest[0]) && rest[0] != '{')) continue;  // a longer name
      auto& sum = sums_[series.old_name ? 1 : 0][static_cast<std::size_t>(series.field)];
      const auto value = series.in_labels ? cache_config_tokens(rest) : sample_value(rest);
      if (!value) {
        sum.broken = true;
        return;
      }
      sum.total += *value;
      sum.largest = std::max(sum.largest, *value);
      sum.seen = true;
      return;
    }
  }

  [[nodiscard]] const Sum& sum(Field field) const noexcept {
    const auto index = static_cast<std::size_t>(field);
    return sums_[0][index].seen ? sums_[0][index] : sums_[1][index];
  }
  [[nodiscard]] std::optional<double> total(Field field) const noexcept {
    const auto& found = sum(field);
    return found.seen && std::isfinite(found.total) ? std::optional(found.total) : std::nullopt;
  }
  [[nodiscard]] std::optional<double> largest(Field field) const noexcept {
    const auto& found = sum(field);
    return found.seen ? std::optional(found.largest) : std::nullopt;
  }
  /// Sums and counts belong together: when one of them lacks a series, their quotient means nothing.
  [[nodiscard]] std::optional<HistogramTotals> histogram(Field sum_field, Field count_field) const noexcept {
    for (const auto& names : sums_) {
      const auto& sums = names[static_cast<std::size_t>(sum_field)];
      const auto& counts = names[static_cast<std::size_t>(count_field)];
      if (!sums.seen || !counts.seen || sums.broken || counts.broken) continue;
      if (std::isfinite(sums.total) && std::isfinite(counts.total)) return HistogramTotals{sums.total, counts.total};
    }
    return std::nullopt;
  }

 private:
  std::span<const Series> series_;
  std::array<std::array<Sum, field_count>, 2> sums_{};  ///< new names, old names
};

}  // namespace

EngineMetrics parse_engine_metrics(std::string_view text, model::Engine engine) noexcept {
  Reader reader(engine == model::Engine::sglang ? std::span<const Series>(sglang_series)
                                                : std::span<const Series>(vllm_series));
  while (!text.empty()) {
    const auto end = text.find('\n');
    reader.read_line(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  EngineMetrics metrics;
  metrics.running = reader.total(Field::running);
  metrics.waiting = reader.total(Field::waiting);
  metrics.kv_usage = reader.largest(Field::kv_usage);
  if (metrics.kv_usage) metrics.kv_usage = std::min(*metrics.kv_usage, 1.0);
  metrics.ttft = reader.histogram(Field::ttft_sum, Field::ttft_count);
  metrics.tpot = reader.histogram(Field::tpot_sum, Field::tpot_count);
  metrics.process_start = reader.largest(Field::process_start);
  if (const auto tokens = reader.total(Field::kv_tokens); tokens && *tokens >= 1 && *tokens <= most_kv_tokens)
    metrics.kv_tokens = static_cast<std::int64_t>(*tokens);
  return metrics;
}

double LatencyAverage::next(const HistogramTotals& totals) noexcept {
  const auto previous = std::exchange(previous_, totals);
  if (!previous || totals.count <= 0) return 0;
  const bool restarted = totals.count < previous->count || totals.sum_seconds < previous->sum_seconds;
  if (restarted) return totals.sum_seconds / totals.count;
  const double added = totals.count - previous->count;
  return added > 0 ? (totals.sum_seconds - previous->sum_seconds) / added : 0;
}

std::optional<LoadSample> SampleBuilder::next(const EngineMetrics& metrics) noexcept {
  const auto average = [](LatencyAverage& of, const std::optional<HistogramTotals>& totals, double& last) {
    const double value = totals ? of.next(*totals) : 0;
    if (value > 0 && std::isfinite(value)) last = value;
    return last;
  };
  LoadSample sample;
  sample.ttft_seconds = average(ttft_, metrics.ttft, last_ttft_);
  sample.tpot_seconds = average(tpot_, metrics.tpot, last_tpot_);
  if (!metrics.running || !metrics.waiting) return std::nullopt;
  sample.running = *metrics.running;
  sample.waiting = *metrics.waiting;
  sample.kv_usage = metrics.kv_usage.value_or(0.5);
  return sample;
}

}  // namespace warmroute::scrape
