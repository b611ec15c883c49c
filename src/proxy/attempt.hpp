#pragma once
// Step 9: one try on one pod: call it, judge its answer (decision 3.3), relay or keep it. Previous step:
// proxy/forward.cpp, next: proxy/engine_call.cpp, then proxy/relay.cpp.

#include <string>

#include "proxy/engine_call.hpp"
#include "proxy/exchange.hpp"
#include "proxy/outgoing.hpp"
#include "proxy/pick.hpp"
#include "proxy/relay.hpp"

namespace warmroute::proxy {

/// The last complete answer of an engine that was not good enough to be relayed at once.
struct KeptAnswer {
  EngineAnswer answer;
  std::string body;
  std::string pod;
  bool usable = false;
};

/// How one attempt ended, for the loop over the candidates.
enum class Verdict : std::uint8_t { done, next_pod, client_left };

/// Lives in the frame of forward(); guard, gauge and plugins are settled exactly once, by its destructor at the latest.
class Attempt {
 public:
  Attempt(Exchange& exchange, const route::Match& match, const model::PodEntry& pod, Reserved reserved,
          const Outgoing& outgoing);
  ~Attempt() { settle(Outcome::End::failed_before_first_byte); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  net::Task<Verdict> run(KeptAnswer& kept);
  /// The client left: whatever is awaited ends.
  void wake() { call_.wake(); }
  [[nodiscard]] bool timed_out() const noexcept { return call_.timed_out(); }

 private:
  [[nodiscard]] bool gone() const noexcept { return exchange_.session.client_left(); }
  net::Task<Verdict> keep(KeptAnswer& kept);
  net::Task<Verdict> relay();
  net::Task<Relay::Step> pump(Relay& relay);
  void settle(Outcome::End end) noexcept;
  /// The pod's own failure, as its breaker sees it.
  void blame_pod();
  void note_relayed_error();
  void note_first_byte();

  Exchange& exchange_;
  const model::PodEntry& pod_;
  model::InFlightGuard guard_;
  BreakerPass pass_;
  metrics::GaugeGuard gauge_;
  const Outgoing& outgoing_;
  EngineCall call_;
  openai::Usage usage_;
  bool settled_ = false;
};

}  // namespace warmroute::proxy
