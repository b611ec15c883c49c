#include "lora_affinity/lora_affinity.hpp"

#include <algorithm>

namespace warmroute::plugins {
namespace {

class LoraAffinity final : public FilterPlugin {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "lora-affinity"; }

  void filter(const RequestView& request, RequestState*, std::span<const PodView> pods,
              std::span<bool> keep) const override {
    for (std::size_t i = 0; i < pods.size(); ++i) {
      const auto& loaded = pods[i].loaded_models;
      if (std::find(loaded.begin(), loaded.end(), request.model) == loaded.end()) keep[i] = false;
    }
  }
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_lora_affinity(const Args& args, Host& host) {
  warn_unknown_args("lora-affinity", args, {}, host);
  return std::shared_ptr<Plugin>(std::make_shared<LoraAffinity>());
}

}  // namespace warmroute::plugins
