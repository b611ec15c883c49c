#include "proxy/retry.hpp"

#include <algorithm>

namespace warmroute::proxy {

std::size_t tries_allowed(const model::ModelServer& spec) noexcept {
  if (!spec.retry) return schedule::candidate_limit;
  return std::min<std::size_t>(schedule::candidate_limit,
                               static_cast<std::size_t>(std::max(spec.retry->attempts, 0)) + 1);
}

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

net::Task<bool> pause_before_retry(Exchange& exchange, std::chrono::milliseconds interval,
                                   Pause*& awaited) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  if (interval.count() > 0) {
    Pause pause(exchange, std::min(interval, exchange.time_left()));
    awaited = &pause;
    co_await pause.wait();
    awaited = nullptr;
  }
  co_return !exchange.session.client_left() && exchange.time_left().count() > 0;
}

}  // namespace warmroute::proxy
