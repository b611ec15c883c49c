#pragma once
// Requests to the API server per second, as client-go's token bucket. Time is a parameter.

#include <algorithm>
#include <chrono>

#include "net/task.hpp"

namespace warmroute::kube {

class RateLimit {
 public:
  /// \param qps, burst 0: the defaults of Go's client, 5 and 10
  RateLimit(double qps, int burst, net::Clock::time_point now)
      : qps_(qps > 0 ? qps : 5), burst_(burst > 0 ? burst : 10), tokens_(burst_), filled_(now) {}

  /// Takes one request's turn; how long to wait for it.
  net::Clock::duration take(net::Clock::time_point now) {
    const double seconds = std::chrono::duration<double>(now - filled_).count();
    tokens_ = std::min<double>(burst_, tokens_ + std::max(seconds, 0.0) * qps_);
    filled_ = now;
    tokens_ -= 1;
    if (tokens_ >= 0) return {};
    return std::chrono::duration_cast<net::Clock::duration>(std::chrono::duration<double>(-tokens_ / qps_));
  }

 private:
  double qps_;
  int burst_;
  double tokens_;  ///< below zero: requests that wait for their turn
  net::Clock::time_point filled_;
};

}  // namespace warmroute::kube
