#include "model/breaker.hpp"

#include <algorithm>
#include <utility>

namespace warmroute::model {
namespace {

using State = Breaker::State;

constexpr std::uint64_t bits(State state) noexcept { return static_cast<std::uint64_t>(state); }

std::uint32_t ticks_of(std::chrono::milliseconds length) noexcept {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(length.count() / 10, 1));
}
std::uint32_t tick(Breaker::Clock::time_point now) noexcept {
  const auto since_start = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch());
  return static_cast<std::uint32_t>(since_start.count() / 10);
}
bool reached(std::uint32_t now, std::uint32_t then) noexcept { return static_cast<std::int32_t>(now - then) >= 0; }
/// 0 where another thread's `then` is younger than this one's clock reading.
std::uint32_t elapsed(std::uint32_t now, std::uint32_t then) noexcept { return reached(now, then) ? now - then : 0; }

/// Doubles with each opening, a fifth more or less: pods that failed together do not come back together.
std::uint32_t open_ticks(const BreakerPolicy& policy, std::uint64_t exponent, std::uint64_t random) noexcept {
  const auto grown = std::min<std::int64_t>(policy.open.count() << exponent, policy.open_max.count());
  const auto per_mille = 800 + static_cast<std::int64_t>(random % 401);
  return ticks_of(std::chrono::milliseconds(grown * per_mille / 1000));
}

}  // namespace

template <class Change>
std::optional<State> Breaker::update(const Change& change) noexcept {
  std::uint64_t before = word_.load(std::memory_order_relaxed);
  for (;;) {
    const Word old = std::bit_cast<Word>(before);
    Word next = old;
    if (!change(next)) return std::nullopt;
    // Nothing else is published through the word.
    if (!word_.compare_exchange_weak(before, std::bit_cast<std::uint64_t>(next), std::memory_order_relaxed)) continue;
    if (next.state == old.state) return std::nullopt;
    return static_cast<State>(next.state);
  }
}

bool Breaker::admits(const BreakerPolicy& policy, Clock::time_point now, double draw) const noexcept {
  const Word word = load();
  const std::uint32_t at = tick(now);
  const auto since = static_cast<std::uint32_t>(word.time);
  switch (static_cast<State>(word.state)) {
    case State::closed:
      return true;
    case State::open:
      return reached(at, since);
    case State::half_open:
      return word.probing < policy.probes;
    case State::ramping:
      break;
  }
  const std::uint64_t whole = ticks_of(policy.ramp);
  const std::uint64_t passed = std::max<std::uint64_t>(elapsed(at, since), whole / 10);
  return passed >= whole || draw * static_cast<double>(whole) < static_cast<double>(passed);
}

std::optional<Breaker::Ticket> Breaker::enter(const BreakerPolicy& policy, Clock::time_point now, bool forced,
                                              std::optional<State>& changed) noexcept {
  const std::uint32_t at = tick(now);
  std::optional<Ticket> ticket;
  changed = update([&](Word& word) {
    ticket = Ticket{static_cast<std::uint8_t>(word.epoch), false};
    switch (static_cast<State>(word.state)) {
      case State::closed:
        return false;
      case State::open:
        if (!reached(at, static_cast<std::uint32_t>(word.time))) {
          if (!forced) ticket.reset();
          return false;
        }
        word.state = bits(State::half_open);
        word.proven = 0;
        word.probing = 1;
        ticket->probe = true;
        return true;
      case State::half_open:
        if (word.probing >= policy.probes) {
          if (!forced) ticket.reset();
          return false;
        }
        ++word.probing;
        ticket->probe = true;
        return true;
      case State::ramping:
        if (elapsed(at, static_cast<std::uint32_t>(word.time)) < ticks_of(policy.ramp)) return false;
        word.state = bits(State::closed);
        word.exponent = 0;
        word.failures = 0;
        return true;
    }
    return false;
  });
  return ticket;
}

std::optional<State> Breaker::head_good(const BreakerPolicy& policy, Clock::time_point now, Ticket& ticket) noexcept {
  if (load().state == closed_bits) return std::nullopt;
  const bool probe = std::exchange(ticket.probe, false);
  return update([&](Word& word) {
    if (word.epoch != ticket.epoch) return false;
    const auto state = static_cast<State>(word.state);
    if (state == State::half_open && probe) --word.probing;
    if (state == State::half_open) ++word.proven;
    // While it is open only requests that were sent because no pod was left carry its epoch.
    const bool ramp = state == State::open || (state == State::half_open && word.proven >= policy.probes);
    if (ramp) {
      word.state = bits(State::ramping);
      word.time = tick(now);
    }
    return ramp || state == State::half_open;
  });
}

std::optional<State> Breaker::complete(const BreakerPolicy& policy, Clock::time_point now, Ticket& ticket) noexcept {
  const Word seen = load();
  if (seen.state == closed_bits && seen.failures == 0) return std::nullopt;
  return update([&](Word& word) {
    if (word.epoch != ticket.epoch) return false;
    if (word.state == closed_bits && word.failures != 0) {
      word.failures = 0;
      return true;
    }
    if (word.state != bits(State::ramping)) return false;
    if (elapsed(tick(now), static_cast<std::uint32_t>(word.time)) < ticks_of(policy.ramp)) return false;
    word.state = bits(State::closed);
    word.exponent = 0;
    word.failures = 0;
    return true;
  });
}

std::optional<State> Breaker::failed(const BreakerPolicy& policy, Clock::time_point now, std::uint64_t random,
                                     Ticket& ticket) noexcept {
  ticket.probe = false;  // its place goes with the state
  return update([&](Word& word) {
    if (word.epoch != ticket.epoch || word.state == bits(State::open)) return false;
    if (word.state == closed_bits) {
      ++word.failures;
      if (word.failures < policy.failures) return true;
    }
    word.time = tick(now) + open_ticks(policy, word.exponent, random);
    word.state = bits(State::open);
    word.exponent = std::min<std::uint64_t>(word.exponent + 1, 15);
    word.failures = 0;
    word.probing = 0;
    word.proven = 0;
    ++word.epoch;
    return true;
  });
}

void Breaker::leave(Ticket& ticket) noexcept {
  if (!std::exchange(ticket.probe, false)) return;
  (void)update([&](Word& word) {
    if (word.epoch != ticket.epoch || word.state != bits(State::half_open) || word.probing == 0) return false;
    --word.probing;
    return true;
  });
}

State Breaker::state(const BreakerPolicy& policy, Clock::time_point now) const noexcept {
  const Word word = load();
  const auto state = static_cast<State>(word.state);
  if (state == State::ramping && elapsed(tick(now), static_cast<std::uint32_t>(word.time)) >= ticks_of(policy.ramp))
    return State::closed;
  return state;
}

std::string_view name(State state) noexcept {
  switch (state) {
    case State::closed:
      return "closed";
    case State::open:
      return "open";
    case State::half_open:
      return "half-open";
    case State::ramping:
      return "ramping";
  }
  return {};
}

}  // namespace warmroute::model
