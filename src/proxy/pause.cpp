#include "proxy/pause.hpp"

#include <algorithm>

namespace warmroute::proxy {

net::Task<> Pause::wait() {
  // In slices, so that a drain that begins meanwhile is noticed.
  const auto until = net::Clock::now() + length_;
  while (!cancelled_ && !exchange_.shared.draining.load(std::memory_order_relaxed) && net::Clock::now() < until) {
    timer_.expires_at(std::min(until, net::Clock::now() + std::chrono::milliseconds(50)));
    auto [ec] = co_await timer_.async_wait(net::as_result);
    if (ec) co_return;  // cancelled: the client left, which the caller sees
  }
}

void Pause::cancel() {
  cancelled_ = true;
  timer_.cancel();
}

}  // namespace warmroute::proxy
