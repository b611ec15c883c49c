#include "least_request/least_request.hpp"

#include <algorithm>
#include <array>

#include "warmroute/score_math.hpp"

namespace warmroute::plugins {
namespace {

constexpr std::int64_t default_max_waiting = 10;
constexpr std::array<std::string_view, 1> known_args{"maxWaitingRequests"};

class LeastRequest final : public FilterPlugin, public ScorePlugin {
 public:
  explicit LeastRequest(std::int64_t max_waiting) : max_waiting_(static_cast<double>(max_waiting)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "least-request"; }

  void filter(const RequestView&, RequestState*, std::span<const PodView> pods, std::span<bool> keep) const override {
    for (std::size_t i = 0; i < pods.size(); ++i) {
      // Unknown is not idle, but a pod is never dropped for missing metrics. NaN fails the comparison: dropped.
      const auto& load = pods[i].load;
      if (load && !(load->waiting < max_waiting_)) keep[i] = false;
    }
  }

  bool score(const RequestView&, RequestState*, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override {
    double most = 0;
    for (const auto& pod : pods) most = std::max(most, busyness(pod));
    for (std::size_t i = 0; i < pods.size(); ++i)
      scores[i] = most == 0 ? 100 : truncated_score((most - busyness(pods[i])) / most * 100);
    return true;
  }

 private:
  /// Requests of ours that the engine does not run yet count a hundredfold: they wait for those before them.
  static double busyness(const PodView& pod) noexcept {
    const auto in_flight = static_cast<double>(pod.in_flight);
    const double running = pod.load ? pod.load->running : in_flight;
    return in_flight + 100 * std::max(in_flight - running, 0.0);
  }

  double max_waiting_;
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_least_request(const Args& args, Host& host) {
  warn_unknown_args("least-request", args, known_args, host);
  std::int64_t limit = 0;
  if (!args.readable()) {
    host.error("least-request: the args block is not a mapping; using the default maxWaitingRequests of 10");
  } else if (const auto given = args.integer(known_args[0]); !given) {
    host.error("least-request: " + given.error().detail + "; using the default of 10");
  } else {
    limit = given->value_or(0);
  }
  return std::shared_ptr<Plugin>(std::make_shared<LeastRequest>(limit == 0 ? default_max_waiting : limit));
}

}  // namespace warmroute::plugins
