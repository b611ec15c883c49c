#pragma once
// trafficPolicy.retry: how many tries a request has, and the interval before a retry.

#include <chrono>

#include "proxy/exchange.hpp"

namespace warmroute::proxy {

/// Tries of one request, the first included; each goes to another pod or pair.
[[nodiscard]] std::size_t tries_allowed(const model::ModelServer& spec) noexcept;

/// A wait that ends early when the client leaves or the router drains.
class Pause {
 public:
  Pause(Exchange& exchange, std::chrono::milliseconds length)
      : exchange_(exchange), length_(length), timer_(exchange.session.context().worker.io()) {}
  net::Task<> wait();
  void cancel();

 private:
  Exchange& exchange_;
  std::chrono::milliseconds length_;
  net::Timer timer_;
  bool cancelled_ = false;
};

/// Waits for `interval`, but not beyond the total time-out. `awaited` points to the wait meanwhile, so that it can be
/// cancelled. False: the client left or no time is left.
net::Task<bool> pause_before_retry(Exchange& exchange, std::chrono::milliseconds interval,
                                   Pause*& awaited);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
