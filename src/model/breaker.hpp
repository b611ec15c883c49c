#pragma once
// The passive circuit breaker of one pod incarnation: failures of its own in a row take it out, and it comes back
// gently: a few probes first, then a growing share of the requests. Its whole state is one atomic word, so that all
// workers share it without a lock. Time and randomness are parameters.
//
//   closed --failures in a row--> open --time is up, next request--> half_open --good probes--> ramping --time-->
//   closed
//                                   ^------------------- any failure ----------------'------------'

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace warmroute::model {

struct BreakerPolicy {
  std::uint32_t failures = 0;            ///< in a row that open the breaker, at most 1000; 0: no breaker
  std::chrono::milliseconds open{2000};  ///< the first time; doubles with each failure that follows
  std::chrono::milliseconds open_max{60000};
  std::uint32_t probes = 3;               ///< 1..15: so many at once, and so many good ones begin the ramp
  std::chrono::milliseconds ramp{10000};  ///< from a tenth of its requests to all of them

  [[nodiscard]] bool enabled() const noexcept { return failures != 0; }
};

class Breaker {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State : std::uint8_t { closed, open, half_open, ramping };

  /// What a request carries from enter() to its result. Results of requests that began before the breaker last opened
  /// do not count: `epoch` tells them.
  struct Ticket {
    std::uint8_t epoch = 0;
    bool probe = false;
  };

  /// The common case: one load.
  [[nodiscard]] bool closed() const noexcept { return load().state == closed_bits; }
  /// Whether a request may be given to the pod. In the ramp only where `draw` (0 to below 1) is below the share of the
  /// requests that the pod gets by now. Changes nothing.
  [[nodiscard]] bool admits(const BreakerPolicy& policy, Clock::time_point now, double draw) const noexcept;
  /// The request is given to the pod. Empty: its probes are taken. `forced`: it is sent whatever the state, because no
  /// pod admits requests. `changed` is set where the state changed.
  [[nodiscard]] std::optional<Ticket> enter(const BreakerPolicy& policy, Clock::time_point now, bool forced,
                                            std::optional<State>& changed) noexcept;
  /// A good head arrived. A probe's place is free again.
  std::optional<State> head_good(const BreakerPolicy& policy, Clock::time_point now, Ticket& ticket) noexcept;
  /// A good answer was complete.
  std::optional<State> complete(const BreakerPolicy& policy, Clock::time_point now, Ticket& ticket) noexcept;
  /// The pod failed. `random`: for the jitter of the open time.
  std::optional<State> failed(const BreakerPolicy& policy, Clock::time_point now, std::uint64_t random,
                              Ticket& ticket) noexcept;
  /// Neither good nor bad: a client error, a client that left. A probe's place is free again.
  void leave(Ticket& ticket) noexcept;

  [[nodiscard]] State state(const BreakerPolicy& policy, Clock::time_point now) const noexcept;

 private:
  static constexpr std::uint64_t closed_bits = 0;
  /// One word, changed as a whole. Times are counted in hundredths of a second and compared modulo 2^32.
  struct Word {
    std::uint64_t state : 2;
    std::uint64_t exponent : 4;  ///< openings since it was closed
    std::uint64_t failures : 10;
    std::uint64_t probing : 4;
    std::uint64_t proven : 4;
    std::uint64_t epoch : 8;
    std::uint64_t time : 32;  ///< open: until; ramping: since
  };

  [[nodiscard]] Word load() const noexcept { return std::bit_cast<Word>(word_.load(std::memory_order_relaxed)); }
  /// Replaces the word by what `change` makes of it, unless that says false.
  template <class Change>
  std::optional<State> update(const Change& change) noexcept;

  std::atomic<std::uint64_t> word_{0};
};

[[nodiscard]] std::string_view name(Breaker::State state) noexcept;

}  // namespace warmroute::model
