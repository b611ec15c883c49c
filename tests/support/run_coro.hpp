#pragma once
// Coroutines and timers under test: on an io_context of the test's own, always with a limit, never detached.

#include <boost/asio/co_spawn.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <stdexcept>

#include "net/task.hpp"

namespace warmroute::test {

/// Runs until `reached` says so; false when the limit came first.
inline bool run_until(net::io_context& io, const std::function<bool()>& reached,
                      std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  const auto deadline = net::Clock::now() + limit;
  while (!reached()) {
    if (net::Clock::now() >= deadline) return false;
    if (io.stopped()) io.restart();
    io.run_one_for(std::chrono::milliseconds(20));
  }
  return true;
}

/// Runs one coroutine to its end and throws what it throws; one that still waits at the limit is a failure too.
inline void run_coro(net::io_context& io, net::Task<> body,
                     std::chrono::milliseconds limit = std::chrono::seconds(10)) {
  bool finished = false;
  std::exception_ptr failure;
  boost::asio::co_spawn(io.get_executor(), std::move(body), [&](const std::exception_ptr& thrown) {
    finished = true;
    failure = thrown;
  });
  const bool ended = run_until(
      io, [&] { return finished; }, limit);
  if (failure) std::rethrow_exception(failure);
  if (!ended) throw std::runtime_error("coroutine still waiting at the limit");
}

}  // namespace warmroute::test
