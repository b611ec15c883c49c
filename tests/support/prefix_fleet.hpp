#pragma once
// prefix-cache with a few pods, for the tests beside it.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "prefix_cache/prefix_cache.hpp"
#include "support/plugin_runner.hpp"

namespace warmroute::test {

using plugins::make_prefix_cache;

using Scores = std::vector<std::int64_t>;
/// A plugin with `count` pods that have joined.
struct Fleet {
  explicit Fleet(std::size_t count, const std::string& args = "") : plugin(make_plugin(make_prefix_cache, host, args)) {
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      PodView pod;
      pod.id = {slot, 1};
      pods.push_back(pod);
      host.join(pod.id);
    }
  }
  Scores scores(const RequestView& request) {
    state = plugin->new_state();
    return scores_of(*plugin, pods, request, state.get());
  }
  /// The request is scored and then served, or not, by a pod.
  void serve(const RequestView& request, PodId pod, Outcome outcome = ok()) {
    (void)scores(request);
    hook().attempt_done(request, state.get(), pod, outcome);
  }
  [[nodiscard]] PostRequest& hook() const { return dynamic_cast<PostRequest&>(*plugin); }
  /// A complete answer whose engine reports usage.
  static Outcome used(std::int64_t prompt_tokens, std::int64_t cached_tokens) {
    Outcome outcome = ok();
    outcome.prompt_tokens = prompt_tokens;
    outcome.cached_tokens = cached_tokens;
    return outcome;
  }
  static Outcome ok() {
    Outcome outcome;
    outcome.status = 200;
    return outcome;
  }
  [[nodiscard]] double entries() { return host.gauges.at("prefix_cache_entries")(); }
  [[nodiscard]] double evictions(const std::string& model) {
    return host.series("prefix_cache_evictions_total")->sums[model];
  }

  FakeHost host;
  std::shared_ptr<Plugin> plugin;
  std::vector<PodView> pods;
  std::unique_ptr<RequestState> state;
};

inline RequestView ask(std::string_view prompt, std::string_view model = "m") {
  RequestView request;
  request.model = model;
  request.prompt = prompt;
  return request;
}

inline std::string text(std::size_t bytes, char salt = 'a') {
  std::string made;
  for (std::size_t i = 0; i < bytes; ++i) made.push_back(static_cast<char>('A' + (i * 7 + i / 64) % 50));
  if (!made.empty()) made[0] = salt;
  return made;
}

}  // namespace warmroute::test
