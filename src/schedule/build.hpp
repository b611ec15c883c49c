#pragma once
// Names, weights and args -> pipeline, or an error that names the known plugins.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "schedule/pipeline.hpp"
#include "warmroute/plugin_registry.hpp"

namespace warmroute::schedule {

struct PipelineConfig {
  struct Score {
    std::string name;
    std::int64_t weight = 1;
  };
  std::vector<std::string> filters;  ///< in order; duplicates run twice
  std::vector<Score> scores;         ///< of equal names the last weight wins
  std::map<std::string, Args> args;  ///< by plugin name
  bool skip_unknown = false;         ///< --compat=kthena: log `Failed to get plugin X.` and go on
};

/// Logs through `host`: `random` beside others removed, unknown plugins skipped, no score plugin at all.
[[nodiscard]] Result<std::unique_ptr<Pipeline>> build_pipeline(const PipelineConfig& config, const Registry& registry,
                                                               Host& host, Timing* timing);

}  // namespace warmroute::schedule
