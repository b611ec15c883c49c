#pragma once
// The metrics of prefix-cache that have a model.

#include <array>
#include <memory>

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

struct PrefixCacheSeries {
  explicit PrefixCacheSeries(Host& host)
      : match_ratio(host.histogram_by_model("prefix_cache_match_ratio",
                                            "Share of the prompt's blocks matched by the best pod, 0 for a miss.",
                                            ratio_buckets)),
        evictions(host.counter_by_model("prefix_cache_evictions_total",
                                        "Block entries dropped because a pod's list was full.")),
        requests(host.counter_by_model("warmroute_prefix_cache_requests_total", "Requests with a prompt to match.")),
        hits(host.counter_by_model("warmroute_prefix_cache_hits_total",
                                   "Requests served by a pod that had a part of the prompt.")),
        matched_bytes(host.counter_by_model("warmroute_prefix_cache_matched_bytes_total",
                                            "Bytes of prompts that the serving pod was believed to have.")),
        disbelieved(host.counter_by_model("warmroute_prefix_cache_disbelieved_total",
                                          "Block entries dropped because their engine reported no hit.")),
        predicted(host.histogram_by_model("warmroute_prefix_cache_predicted_share",
                                          "Share of the prompt that the serving pod was believed to have.",
                                          ratio_buckets)),
        actual(host.histogram_by_model("warmroute_prefix_cache_actual_share",
                                       "Share of the prompt that the engine took from its cache.", ratio_buckets)) {}

  std::shared_ptr<HistogramByModel> match_ratio;
  std::shared_ptr<CounterByModel> evictions, requests, hits, matched_bytes, disbelieved;
  /// Observed together, for complete answers whose engine reports cached tokens.
  std::shared_ptr<HistogramByModel> predicted, actual;

 private:
  static constexpr std::array<double, 9> ratio_buckets{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1};
};

}  // namespace warmroute::plugins
