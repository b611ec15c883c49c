#include "least_latency/least_latency.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "warmroute/score_math.hpp"

namespace warmroute::plugins {
namespace {

constexpr double default_factor = 0.5;
constexpr std::int64_t unmeasured_score = 50;
constexpr std::array<std::string_view, 1> known_args{"TTFTTPOTWeightFactor"};

struct Range {
  double low = std::numeric_limits<double>::max();
  double high = 0;

  void add(double value) noexcept {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// 100 for the lowest value, 0 for the highest; 100 when all are equal.
  [[nodiscard]] double score(double value) const noexcept {
    return high > low ? 100 * (high - value) / (high - low) : 100;
  }
};

/// The pod's sample when both latencies were measured, else null.
const LoadSample* measured(const PodView& pod) noexcept {
  if (!pod.load || pod.load->ttft_seconds <= 0 || pod.load->tpot_seconds <= 0) return nullptr;
  return &*pod.load;
}

std::string shortest(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Inf" : "+Inf";
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

class LeastLatency final : public ScorePlugin {
 public:
  explicit LeastLatency(double factor) : factor_(factor) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "least-latency"; }

  bool score(const RequestView&, RequestState*, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override {
    Range first, next;
    for (const auto& pod : pods) {
      const LoadSample* load = measured(pod);
      if (load == nullptr) continue;
      first.add(load->ttft_seconds);
      next.add(load->tpot_seconds);
    }
    for (std::size_t i = 0; i < pods.size(); ++i) {
      scores[i] = unmeasured_score;
      if (const LoadSample* load = measured(pods[i]))
        scores[i] =
            truncated_score(first.score(load->ttft_seconds) * factor_ + next.score(load->tpot_seconds) * (1 - factor_));
    }
    return true;
  }

 private:
  double factor_;
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_least_latency(const Args& args, Host& host) {
  const std::string prefix = "invalid least-latency plugin configuration: ";
  warn_unknown_args("least-latency", args, known_args, host);
  if (!args.readable())
    return value_error(prefix + "unmarshal least-latency arguments: the args block is " +
                       std::string(args.root().type_name()));
  const auto given = args.number(known_args[0]);
  if (!given) return value_error(prefix + "unmarshal least-latency arguments: " + given.error().detail);
  const double factor = given->value_or(default_factor);
  if (!std::isfinite(factor) || factor < 0 || factor > 1) {
    return value_error(prefix + "TTFTTPOTWeightFactor must be a finite value between 0 and 1, got " + shortest(factor));
  }
  return std::shared_ptr<Plugin>(std::make_shared<LeastLatency>(factor));
}

}  // namespace warmroute::plugins
