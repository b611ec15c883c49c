#pragma once
// Step 9: one try on one pod: call it, judge its answer (decision 3.3), relay or keep it. Previous step:
// proxy/forward.cpp, next: proxy/engine_call.cpp, then proxy/relay.cpp.

#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "proxy/engine_call.hpp"
#include "proxy/exchange.hpp"
#include "proxy/kept_answer.hpp"
#include "proxy/outgoing.hpp"
#include "proxy/pick.hpp"
#include "proxy/relay.hpp"

namespace warmroute::proxy {

/// How one attempt ended, for the loop over the candidates.
enum class Verdict : std::uint8_t { done, next_pod, client_left };

/// What came of asking a pod, before anything reached the client.
enum class Asked : std::uint8_t {
  answered,   ///< there is an answer for the client: relay() it
  prefilled,  ///< the prefill pod has done its part; its answer was read to the end
  next_pod,   ///< failed, or answered what another pod may better (kept then)
  client_left
};

/// Lives in the frame of forward() or forward_pair(); guard, gauge and plugins are settled exactly once, by its
/// destructor at the latest.
class Attempt {
 public:
  /// `outgoing` outlives it.
  Attempt(Exchange& exchange, const route::Match& match, const model::PodEntry& pod, Reserved reserved,
          const Outgoing& outgoing, metrics::Phase phase = metrics::Phase::whole);
  ~Attempt() { settle(Outcome::End::failed_before_first_byte); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  /// ask() and relay().
  net::Task<Verdict> run(KeptAnswer& kept);
  /// Calls the pod and judges its answer. No deadline runs once it returned.
  net::Task<Asked> ask(KeptAnswer& kept);
  /// Only after ask() said `answered`.
  net::Task<Verdict> relay();
  /// A prefill attempt puts the decoded body of a good answer there; null: the body is read and dropped.
  void collect_into(base::Bytes* body) noexcept { collect_into_ = body; }

  /// The client left: whatever is awaited ends.
  void wake() { call_.wake(); }
  /// Nobody wants the answer any more: ask() ends with next_pod.
  void abandon() { call_.abandon(); }
  /// Another attempt runs beside this one and may be why no head comes: a time-out before the head counts for the pod's
  /// breaker only when blame_for_time_out() says so.
  void withhold_blame() noexcept { withhold_blame_ = true; }
  void blame_for_time_out() {
    if (std::exchange(blame_withheld_, false)) blame_pod();
  }
  [[nodiscard]] bool abandoned() const noexcept { return call_.abandoned(); }
  /// ask() said something, but the answer is not wanted: its engine stops working for nobody.
  void discard() noexcept {
    call_.close();
    settle(Outcome::End::failed_before_first_byte);
  }
  [[nodiscard]] int status() const noexcept { return call_.answer.head.status; }
  [[nodiscard]] bool timed_out() const noexcept { return call_.timed_out(); }

 private:
  [[nodiscard]] bool gone() const noexcept { return exchange_.session.client_left(); }
  /// Reads what is left of the body, into `body` up to `limit` bytes when it is not null. \return it was complete and
  /// not larger.
  net::Task<bool> read_body(base::Bytes* body, std::size_t limit);
  net::Task<Asked> keep(KeptAnswer& kept);
  net::Task<Asked> collect();
  net::Task<Relay::Step> pump(Relay& relay);
  void settle(Outcome::End end) noexcept;
  /// The pod's own failure, as its breaker sees it.
  void blame_pod();
  bool withhold_blame_ = false, blame_withheld_ = false;
  void observe_phase(Outcome::End end) noexcept;
  void note_relayed_error();
  void note_first_byte();

  Exchange& exchange_;
  const model::PodEntry& pod_;
  model::InFlightGuard guard_;
  BreakerPass pass_;
  metrics::GaugeGuard gauge_;
  const Outgoing& outgoing_;
  EngineCall call_;
  metrics::Phase phase_;
  base::Bytes* collect_into_ = nullptr;
  model::RequestRecord::Steady::time_point started_;
  openai::Usage usage_;
  bool settled_ = false;
};

}  // namespace warmroute::proxy
