#pragma once
// Runs one plugin on a few pods, for the tests beside the plugins.

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/fake_host.hpp"
#include "support/yaml_value.hpp"
#include "warmroute/plugin_registry.hpp"

namespace warmroute::test {

using Make = Result<std::shared_ptr<Plugin>>(const Args&, Host&);

inline PodView pod_with(LoadSample load, std::int64_t in_flight = 0) {
  PodView pod;
  pod.in_flight = in_flight;
  pod.load = load;
  return pod;
}

inline PodView pod_unknown(std::int64_t in_flight = 0) {
  PodView pod;
  pod.in_flight = in_flight;
  return pod;
}

inline std::shared_ptr<Plugin> make_plugin(Make make, FakeHost& host, const std::string& args = "") {
  auto made = make(args.empty() ? Args() : to_args(args), host);
  REQUIRE(made.has_value());
  return *made;
}

inline std::vector<std::int64_t> scores_of(const Plugin& plugin, const std::vector<PodView>& pods,
                                           const RequestView& request = {}, RequestState* state = nullptr) {
  std::vector<std::int64_t> scores(pods.size(), 0);
  REQUIRE(dynamic_cast<const ScorePlugin&>(plugin).score(request, state, pods, scores));
  return scores;
}

inline std::vector<bool> kept_by(const Plugin& plugin, const std::vector<PodView>& pods,
                                 const RequestView& request = {}) {
  const auto keep = std::make_unique<bool[]>(pods.size());
  std::fill_n(keep.get(), pods.size(), true);
  dynamic_cast<const FilterPlugin&>(plugin).filter(request, nullptr, pods, {keep.get(), pods.size()});
  return std::vector<bool>(keep.get(), keep.get() + pods.size());
}

}  // namespace warmroute::test
