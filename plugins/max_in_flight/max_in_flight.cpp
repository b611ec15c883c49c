#include "max_in_flight/max_in_flight.hpp"

#include <array>

namespace warmroute::plugins {
namespace {

constexpr std::array<std::string_view, 1> known_args{"maxInFlight"};

class MaxInFlight final : public FilterPlugin, public InFlightLimit {
 public:
  explicit MaxInFlight(std::int64_t limit) : limit_(limit) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "max-in-flight"; }
  [[nodiscard]] std::int64_t max_in_flight() const noexcept override { return limit_; }

  void filter(const RequestView&, RequestState*, std::span<const PodView> pods, std::span<bool> keep) const override {
    for (std::size_t i = 0; i < pods.size(); ++i)
      if (pods[i].in_flight >= limit_) keep[i] = false;
  }

 private:
  std::int64_t limit_;
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_max_in_flight(const Args& args, Host& host) {
  warn_unknown_args("max-in-flight", args, known_args, host);
  if (!args.readable()) return value_error("max-in-flight: the args block is not a mapping");
  const auto given = args.integer(known_args[0]);
  if (!given) return value_error("max-in-flight: " + given.error().detail);
  if (!*given) return value_error("max-in-flight: the argument maxInFlight is missing");
  if (**given < 1) return value_error("max-in-flight: maxInFlight must be at least 1");
  return std::shared_ptr<Plugin>(std::make_shared<MaxInFlight>(**given));
}

}  // namespace warmroute::plugins
