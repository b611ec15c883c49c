#include "gpu_usage/gpu_usage.hpp"

#include "warmroute/score_math.hpp"

namespace warmroute::plugins {
namespace {

constexpr std::int64_t unknown_score = 50;

class GpuUsage final : public ScorePlugin {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "gpu-usage"; }

  bool score(const RequestView&, RequestState*, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override {
    for (std::size_t i = 0; i < pods.size(); ++i)
      scores[i] = pods[i].load ? truncated_score((1 - pods[i].load->kv_usage) * 100) : unknown_score;
    return true;
  }
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_gpu_usage(const Args& args, Host& host) {
  warn_unknown_args("gpu-usage", args, {}, host);
  return std::shared_ptr<Plugin>(std::make_shared<GpuUsage>());
}

}  // namespace warmroute::plugins
