// The /metrics page in the words of vLLM (new and old names) or SGLang.

#include <fmt/format.h>

#include <algorithm>

#include "engine.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {
constexpr std::array<double, 11> bounds = {0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0};
}

void Histogram::observe(double seconds) {
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin();
  ++counts.at(static_cast<std::size_t>(bucket));
  sum += seconds;
  ++count;
}

std::string Engine::labels(std::size_t rank) const {
  const std::string model = json_string(options_.models.front());  // JSON and exposition text escape alike
  if (options_.dialect == Dialect::vllm) return fmt::format(R"(engine="{}",model_name={})", rank, model);
  return options_.ranks == 1
             ? fmt::format(R"(engine_type="unified",model_name={},tp_rank="0")", model)
             : fmt::format(R"(dp_rank="{}",engine_type="unified",model_name={},tp_rank="0")", rank, model);
}

void Engine::append_gauge(std::string& out, std::string_view name,
                          const std::function<double(std::size_t)>& value) const {
  fmt::format_to(std::back_inserter(out), "# HELP {0} Set by the mock engine.\n# TYPE {0} gauge\n", name);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    fmt::format_to(std::back_inserter(out), "{}{{{}}} {}\n", name, labels(rank), value(rank));
}

void Engine::append_counter(std::string& out, std::string_view name, double value) const {
  fmt::format_to(std::back_inserter(out),
                 "# HELP {0} Counted by the mock engine.\n# TYPE {0} counter\n{0}{{{1}}} {2}\n", name, labels(0),
                 value);
}

void Engine::append_histogram(std::string& out, std::string_view name, const Histogram& histogram,
                              const std::optional<std::pair<double, double>>& set) const {
  const double sum = set ? set->first : histogram.sum;
  const double count = set ? set->second : static_cast<double>(histogram.count);
  auto at = std::back_inserter(out);
  fmt::format_to(at, "# HELP {0} Measured by the mock engine.\n# TYPE {0} histogram\n", name);
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    below += histogram.counts.at(i);
    fmt::format_to(at, "{}_bucket{{{},le=\"{}\"}} {}\n", name, labels(0), bounds.at(i), set ? 0 : below);
  }
  fmt::format_to(at, "{0}_bucket{{{1},le=\"+Inf\"}} {2}\n{0}_sum{{{1}}} {3}\n{0}_count{{{1}}} {2}\n", name, labels(0),
                 count, sum);
}

std::string Engine::metrics() const {
  if (overrides_.metrics_text) return *overrides_.metrics_text;
  std::string out;
  const auto running = [this](std::size_t rank) { return running_of(rank); };
  const auto waiting = [this](std::size_t rank) { return waiting_of(rank); };
  const auto kv_usage = [this](std::size_t rank) { return kv_usage_of(rank); };
  const auto hit_rate = [this](std::size_t) {
    return counters.query_tokens == 0
               ? 0.0
               : static_cast<double>(counters.hit_tokens) / static_cast<double>(counters.query_tokens);
  };
  const auto prompt = static_cast<double>(counters.prompt_tokens);
  const auto generated = static_cast<double>(counters.generated_tokens);
  if (options_.dialect == Dialect::sglang) {
    append_gauge(out, "sglang:num_running_reqs", running);
    append_gauge(out, "sglang:num_queue_reqs", waiting);
    append_gauge(out, "sglang:token_usage", kv_usage);
    append_gauge(out, "sglang:cache_hit_rate", hit_rate);
    append_gauge(out, "sglang:max_total_num_tokens",
                 [this](std::size_t) { return static_cast<double>(options_.cache_blocks * options_.block_tokens); });
    append_counter(out, "sglang:prompt_tokens_total", prompt);
    append_counter(out, "sglang:generation_tokens_total", generated);
    append_histogram(out, "sglang:time_to_first_token_seconds", ttft_, overrides_.ttft);
    append_histogram(out, "sglang:inter_token_latency_seconds", tpot_, overrides_.tpot);
  } else {
    const bool old = options_.old_metrics;
    append_gauge(out, "vllm:num_requests_running", running);
    append_gauge(out, "vllm:num_requests_waiting", waiting);
    append_gauge(out, old ? "vllm:gpu_cache_usage_perc" : "vllm:kv_cache_usage_perc", kv_usage);
    append_counter(out, old ? "vllm:gpu_prefix_cache_queries_total" : "vllm:prefix_cache_queries_total",
                   static_cast<double>(counters.query_tokens));
    append_counter(out, old ? "vllm:gpu_prefix_cache_hits_total" : "vllm:prefix_cache_hits_total",
                   static_cast<double>(counters.hit_tokens));
    out += "# HELP vllm:cache_config_info Set by the mock engine.\n# TYPE vllm:cache_config_info gauge\n";
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      fmt::format_to(std::back_inserter(out),
                     "vllm:cache_config_info{{block_size=\"{}\",cache_dtype=\"auto\",enable_prefix_caching=\"{}\","
                     "engine=\"{}\",num_cpu_blocks=\"0\",num_gpu_blocks=\"{}\"}} 1\n",
                     options_.block_tokens, options_.cache_blocks != 0 ? "True" : "False", rank, options_.cache_blocks);
    append_counter(out, "vllm:prompt_tokens_total", prompt);
    append_counter(out, "vllm:generation_tokens_total", generated);
    append_counter(out, "vllm:request_success_total", static_cast<double>(counters.finished));
    append_histogram(out, "vllm:time_to_first_token_seconds", ttft_, overrides_.ttft);
    append_histogram(out, old ? "vllm:time_per_output_token_seconds" : "vllm:inter_token_latency_seconds", tpot_,
                     overrides_.tpot);
  }
  out += fmt::format(
      "# HELP process_start_time_seconds Start time since the epoch.\n"
      "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds {:.3f}\n",
      start_time_);
  return out;
}

}  // namespace warmroute::mock
