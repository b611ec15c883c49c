#pragma once
// Pods as the golden vectors `plugins` and `schedule` write them, freshly sampled.

#include <string>
#include <vector>

#include "support/golden_file.hpp"
#include "warmroute/pod_view.hpp"

namespace warmroute::test {

class GoldenPods {
 public:
  explicit GoldenPods(simdjson::dom::element pods) {
    for (const auto& pod : simdjson::dom::array(pods)) {
      names_.emplace_back(std::string_view(pod["name"]));
      models_.emplace_back();
      simdjson::dom::array models;
      if (pod["models"].get(models) == simdjson::SUCCESS)
        for (const auto& model : models) models_.back().emplace_back(std::string_view(model));
    }
    std::uint32_t slot = 0;
    for (const auto& pod : simdjson::dom::array(pods)) {
      PodView view;
      view.id = {slot, 1};
      view.name = names_[slot];
      view.in_flight = std::int64_t(pod["on_flight"]);
      view.load = LoadSample{number(pod["running"]), number(pod["waiting"]), number(pod["kv"]), number(pod["ttft"]),
                             number(pod["tpot"])};
      view.loaded_models = models_[slot];
      views_.push_back(view);
      ++slot;
    }
  }
  GoldenPods(const GoldenPods&) = delete;
  GoldenPods& operator=(const GoldenPods&) = delete;

  [[nodiscard]] std::span<const PodView> views() const { return views_; }
  [[nodiscard]] PodId id(std::string_view name) const {
    for (const auto& view : views_)
      if (view.name == name) return view.id;
    return {};
  }

 private:
  std::vector<std::string> names_;
  std::vector<std::vector<std::string>> models_;
  std::vector<PodView> views_;
};

}  // namespace warmroute::test
