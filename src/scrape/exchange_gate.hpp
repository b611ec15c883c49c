#pragma once
// At most so many exchanges at a time, first come first served. One thread.

#include <algorithm>
#include <cstddef>
#include <list>
#include <utility>

#include "net/task.hpp"

namespace warmroute::scrape {

class ExchangeGate {
 public:
  explicit ExchangeGate(std::size_t limit) : free_(limit) {}
  ExchangeGate(const ExchangeGate&) = delete;
  ExchangeGate& operator=(const ExchangeGate&) = delete;

  class PermitGuard {
   public:
    PermitGuard() = default;
    explicit PermitGuard(ExchangeGate& gate) noexcept : gate_(&gate) {}
    PermitGuard(PermitGuard&& other) noexcept : gate_(std::exchange(other.gate_, nullptr)) {}
    PermitGuard& operator=(PermitGuard&& other) noexcept {
      std::swap(gate_, other.gate_);
      return *this;
    }
    ~PermitGuard() {
      if (gate_ != nullptr) gate_->release();
    }
    [[nodiscard]] explicit operator bool() const noexcept { return gate_ != nullptr; }

   private:
    ExchangeGate* gate_ = nullptr;
  };

  /// Waits for a turn on the caller's own timer; cancelling that timer gives up and returns an empty guard.
  net::Task<PermitGuard> enter(net::Timer& timer) {  // NOLINT: the caller awaits at once and owns the timer
    if (free_ > 0) {
      --free_;
      co_return PermitGuard(*this);
    }
    Waiter waiter(*this, timer);
    timer.expires_at(net::Clock::time_point::max());
    co_await timer.async_wait(net::as_result);  // ends by cancellation only: a turn, or giving up
    co_return waiter.take();
  }
  /// No waiter is woken any more.
  void close() noexcept { closed_ = true; }

 private:
  class Waiter {
   public:
    Waiter(ExchangeGate& gate, net::Timer& timer)
        : gate_(gate), timer_(timer), place_(gate.waiters_.insert(gate.waiters_.end(), this)) {}
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;
    ~Waiter() {
      if (in_line_) gate_.waiters_.erase(place_);
    }
    /// Was taken out of the line.
    void give(PermitGuard permit) {
      in_line_ = false;
      permit_ = std::move(permit);
      timer_.cancel();
    }
    PermitGuard take() noexcept { return std::move(permit_); }

   private:
    ExchangeGate& gate_;
    net::Timer& timer_;
    PermitGuard permit_;
    std::list<Waiter*>::iterator place_;
    bool in_line_ = true;
  };

  void release() {
    if (waiters_.empty() || closed_) {
      ++free_;
      return;
    }
    Waiter* const next = waiters_.front();
    waiters_.pop_front();
    next->give(PermitGuard(*this));
  }

  std::size_t free_;
  bool closed_ = false;
  std::list<Waiter*> waiters_;
};

}  // namespace warmroute::scrape
