// Any bytes as an engine's metrics: no crash, and every value within its documented range.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "scrape/engine_metrics.hpp"
#include "scrape/models_list.hpp"

namespace {

using namespace warmroute;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const scrape::EngineMetrics& metrics) {
  for (const auto& value : {metrics.running, metrics.waiting, metrics.process_start})
    require(!value || (std::isfinite(*value) && *value >= 0));
  require(!metrics.kv_usage || (*metrics.kv_usage >= 0 && *metrics.kv_usage <= 1));
  require(!metrics.kv_tokens || (*metrics.kv_tokens >= 1 && *metrics.kv_tokens <= (std::int64_t{1} << 52U)));
  for (const auto& totals : {metrics.ttft, metrics.tpot})
    require(!totals || (std::isfinite(totals->sum_seconds) && std::isfinite(totals->count)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto half = text.substr(size / 2);
  for (const auto engine : {model::Engine::vllm, model::Engine::sglang}) {
    scrape::SampleBuilder builder;
    for (const auto part : {text, half}) {
      const auto metrics = scrape::parse_engine_metrics(part, engine);
      check(metrics);
      const auto sample = builder.next(metrics);
      require(sample.has_value() == (metrics.running && metrics.waiting));
      require(!sample || (std::isfinite(sample->ttft_seconds) && sample->ttft_seconds >= 0));
    }
  }
  (void)scrape::parse_models_list(text);  // the same bytes as the other outside text of a scrape
  return 0;
}
