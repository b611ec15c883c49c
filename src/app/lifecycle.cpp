#include "app/lifecycle.hpp"

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdlib>

#include "base/log.hpp"

namespace warmroute::app {
namespace {

// For handshakes that are under way when the listener is about to close: a round trip over some distance.
constexpr std::chrono::milliseconds handshake_grace{100};

}  // namespace

struct Lifecycle::Signals {
  explicit Signals(net::io_context& io) : set(io.get_executor(), SIGTERM, SIGINT, SIGHUP) {}
  boost::asio::basic_signal_set<net::Executor> set;
};

Lifecycle::Lifecycle(Router& router, std::chrono::milliseconds drain_delay, std::chrono::milliseconds drain_timeout)
    : router_(router),
      drain_delay_(drain_delay),
      drain_timeout_(drain_timeout),
      signals_(std::make_unique<Signals>(router.control())),
      timer_(router.control()),
      tasks_(router.control()) {}

Lifecycle::~Lifecycle() = default;

void Lifecycle::start() { tasks_.spawn("signals", wait_for_signals()); }

net::Task<> Lifecycle::wait_for_signals() {
  for (;;) {
    auto [ec, number] = co_await signals_->set.async_wait(net::as_result);
    if (ec) co_return;
    if (number == SIGHUP) {
      router_.reopen_logs();
      continue;
    }
    if (leaving_) {
      log::warning("second signal: exiting at once");
      log::stop();
      std::_Exit(1);
    }
    leaving_ = true;
    log::info("Received termination, signaling shutdown");
    tasks_.spawn("drain", drain(number == SIGINT));
  }
}

net::Task<> Lifecycle::drain(bool skip_delay) {
  router_.begin_drain();
  if (!skip_delay && drain_delay_.count() > 0) {
    log::info("not ready any more; new connections are served for another {} ms", drain_delay_.count());
    timer_.expires_after(drain_delay_);
    auto [ec] = co_await timer_.async_wait(net::as_result);
    if (ec) co_return;
  }
  router_.refuse_new_connections();
  timer_.expires_after(handshake_grace);
  if (auto [ec] = co_await timer_.async_wait(net::as_result); ec) co_return;
  router_.close_listeners();
  const auto started = net::Clock::now();
  auto told = started;
  log::info("draining: {} connections, at most {} s", router_.open_connections(), drain_timeout_.count() / 1000);
  while (router_.open_connections() > 0 && net::Clock::now() - started < drain_timeout_) {
    timer_.expires_after(std::chrono::milliseconds(20));
    auto [ec] = co_await timer_.async_wait(net::as_result);
    if (ec) co_return;
    if (net::Clock::now() - told > std::chrono::seconds(5)) {
      told = net::Clock::now();
      log::info("draining: {} connections left", router_.open_connections());
    }
  }
  const auto left = router_.open_connections();
  if (left > 0) {
    log::warning("Drain timeout exceeded after {}s: {} requests still inflight, force-closing",
                 std::chrono::duration_cast<std::chrono::seconds>(drain_timeout_).count(), left);
    router_.abort_sessions();
    for (int i = 0; i < 50 && router_.open_connections() > 0; ++i) {
      timer_.expires_after(std::chrono::milliseconds(20));
      auto [ec] = co_await timer_.async_wait(net::as_result);
      if (ec) co_return;
    }
  }
  log::info("drained");
  router_.stop();
}

}  // namespace warmroute::app
