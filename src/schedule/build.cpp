#include "schedule/build.hpp"

#include <algorithm>
#include <utility>

namespace warmroute::schedule {
namespace {

/// Makes each plugin once, however many roles it is listed in.
class Maker {
 public:
  Maker(const PipelineConfig& config, const Registry& registry, Host& host)
      : config_(config), registry_(registry), host_(host) {}

  /// The plugin in the role, null when it is unknown and to be skipped, or why the start must stop.
  template <class Role>
  Result<std::shared_ptr<Plugin>> get(const std::string& name, std::string_view role) {
    // Decision 2: what changes routing is never ignored, also not with --compat=kthena.
    if (name == "kvcache-aware") return value_error(name + " is not supported by this build");
    if (!registry_.knows(name)) return unknown(name, role);
    auto made = made_.find(name);
    if (made == made_.end()) {
      const auto args = config_.args.find(name);
      auto plugin = registry_.make(name, args == config_.args.end() ? Args() : args->second, host_);
      if (!plugin) return plugin.error();
      made = made_.emplace(name, *plugin).first;
    }
    if (dynamic_cast<Role*>(made->second.get()) == nullptr) return unknown(name, role);
    return made->second;
  }

 private:
  Result<std::shared_ptr<Plugin>> unknown(const std::string& name, std::string_view role) {
    if (config_.skip_unknown) {
      host_.error("Failed to get plugin " + name + ".");
      return std::shared_ptr<Plugin>();
    }
    std::string text = "unknown ";
    text.append(role).append(" plugin \"").append(name).append("\"; known plugins: ").append(registry_.known_names());
    return Error{Errc::unknown_plugin, Source::internal, Retry::never, std::move(text)};
  }

  const PipelineConfig& config_;
  const Registry& registry_;
  Host& host_;
  std::map<std::string, std::shared_ptr<Plugin>> made_;
};

/// Equal names once, with the last weight; no `random` beside others, be they known or not.
std::vector<PipelineConfig::Score> effective_scores(const PipelineConfig& config, Host& host) {
  std::vector<PipelineConfig::Score> scores;
  for (const auto& entry : config.scores) {
    const auto same = [&](const PipelineConfig::Score& other) { return other.name == entry.name; };
    const auto found = std::find_if(scores.begin(), scores.end(), same);
    if (found != scores.end()) {
      found->weight = entry.weight;
    } else {
      scores.push_back(entry);
    }
  }
  const auto random = [](const PipelineConfig::Score& entry) { return entry.name == "random"; };
  if (scores.size() > 1 && std::erase_if(scores, random) > 0)
    host.warning("score plugin random is removed: it cannot be combined with other score plugins");
  return scores;
}

}  // namespace

Result<std::unique_ptr<Pipeline>> build_pipeline(const PipelineConfig& config, const Registry& registry, Host& host,
                                                 Timing* timing) {
  Maker maker(config, registry, host);
  std::vector<std::shared_ptr<Plugin>> filters;
  for (const auto& name : config.filters) {
    auto plugin = maker.get<FilterPlugin>(name, "filter");
    if (!plugin) return plugin.error();
    if (*plugin) filters.push_back(std::move(*plugin));
  }
  std::vector<Pipeline::Scorer> scorers;
  for (const auto& [name, weight] : effective_scores(config, host)) {
    auto plugin = maker.get<ScorePlugin>(name, "score");
    if (!plugin) return plugin.error();
    if (*plugin) scorers.push_back({std::move(*plugin), weight});
  }
  if (scorers.empty()) host.warning("no score plugin is enabled: pods are chosen at random");
  return std::make_unique<Pipeline>(filters, scorers, timing);
}

}  // namespace warmroute::schedule
