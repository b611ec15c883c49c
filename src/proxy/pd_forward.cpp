#include "proxy/pd_forward.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "base/log.hpp"
#include "base/rng.hpp"
#include "pd/connector.hpp"
#include "proxy/admit.hpp"
#include "proxy/attempt.hpp"
#include "proxy/local_answer.hpp"
#include "proxy/pd_pick.hpp"
#include "proxy/retry.hpp"

namespace warmroute::proxy {
namespace {

using Steady = model::RequestRecord::Steady;

/// What has to be ended when the client leaves.
struct Awaited {
  Attempt* prefill = nullptr;
  Attempt* decode = nullptr;
  Pause* pause = nullptr;
  WaitQueues::Place* place = nullptr;
};

void on_client_left(void* owner) {
  auto& current = *static_cast<Awaited*>(owner);
  // The last of them may run the request to its end, and `current` with it; a prefill attempt beside a decode attempt
  // only ends its own coroutine.
  auto* const decode = current.decode;
  if (current.place != nullptr) return current.place->interrupt();
  if (current.pause != nullptr) return current.pause->cancel();
  if (current.prefill != nullptr) current.prefill->wake();
  if (decode != nullptr) decode->wake();
}

/// A prefill attempt that runs beside the decode attempt, on the same worker. Shared with the handlers that one side
/// posts to end the other; the pointers are null once an attempt needs no ending any more.
struct Beside {
  explicit Beside(net::io_context& io) : finished(io.get_executor(), net::Clock::time_point::max()) {}
  Attempt* prefill = nullptr;
  Attempt* decode = nullptr;
  Asked outcome = Asked::next_pod;
  bool done = false;
  net::Timer finished;
};

/// One request on its way through the pairs. Lives in the frame of forward_pair().
class PairForward {
 public:
  PairForward(Exchange& exchange, const route::Match& match, Awaited& current)
      : exchange_(exchange),
        match_(match),
        server_(*match.server),
        connector_(pd::connector_for(match.server->spec)),
        members_(exchange.readable_body()),
        current_(current) {}

  net::Task<> run(PairPlan& plan);

 private:
  /// One try. With next_pod one of the two, or both, failed.
  struct Tried {
    Verdict verdict = Verdict::next_pod;
    bool prefill_failed = false;
    bool decode_failed = false;
    bool timed_out = false;  ///< that is why
  };

  net::Task<Tried> try_alone(Pair& pair);
  net::Task<Tried> try_in_turn(Pair& pair);
  net::Task<Tried> try_together(Pair& pair);
  net::Task<Verdict> settle_together(Attempt& prefill, Attempt& decode, Asked decoded, Asked prefilled);
  [[nodiscard]] Outgoing prefill_request(const pd::Pairing& pairing);
  /// False: the prefill pod's answer cannot be used.
  [[nodiscard]] bool decode_request(const pd::Pairing& pairing, std::string_view answer, Outgoing& outgoing);
  [[nodiscard]] pd::Pairing pairing_with(const model::PodEntry& prefill) const;

  Exchange& exchange_;
  const route::Match& match_;
  const model::ServerEntry& server_;
  const pd::Connector& connector_;
  const pd::BodyMembers members_;
  std::vector<http::Edit> prefill_edits_, decode_edits_;
  KeptAnswer kept_;
  Awaited& current_;
  bool only_timeouts_ = true;
};

pd::Pairing PairForward::pairing_with(const model::PodEntry& prefill) const {
  return {prefill.record->ip(), base::random64() >> 1U};
}

Outgoing PairForward::prefill_request(const pd::Pairing& pairing) {
  prefill_edits_.clear();
  rename_model(exchange_, match_, prefill_edits_);
  pd::prefill_edits(connector_, members_, pairing, exchange_.record.path_label, prefill_edits_);
  return compose(exchange_, prefill_edits_);
}

bool PairForward::decode_request(const pd::Pairing& pairing, std::string_view answer, Outgoing& outgoing) {
  decode_edits_ = exchange_.inspection.ask_usage;
  rename_model(exchange_, match_, decode_edits_);
  if (!pd::decode_edits(connector_, members_, pairing, answer, decode_edits_)) return false;
  outgoing = compose(exchange_, decode_edits_);
  return true;
}

// The decode pod holds the prompt: an ordinary request to it.
net::Task<PairForward::Tried> PairForward::try_alone(Pair& pair) {
  exchange_.shared.counters.pd_decode_alone->inc();
  const Outgoing outgoing = prepare(exchange_, match_);
  Attempt decode(exchange_, match_, server_.pods[pair.decode.index], std::move(pair.decode), outgoing,
                 metrics::Phase::decode);
  current_.decode = &decode;
  Tried tried;
  tried.verdict = co_await decode.run(kept_);
  tried.decode_failed = tried.verdict == Verdict::next_pod;
  tried.timed_out = decode.timed_out();
  current_.decode = nullptr;
  co_return tried;
}

net::Task<PairForward::Tried> PairForward::try_in_turn(Pair& pair) {
  const auto& prefill_pod = server_.pods[pair.prefill->index];
  const auto pairing = pairing_with(prefill_pod);
  Tried tried;
  base::Bytes answer;
  {
    const Outgoing outgoing = prefill_request(pairing);
    Attempt prefill(exchange_, match_, prefill_pod, std::move(*pair.prefill), outgoing, metrics::Phase::prefill);
    if (connector_.reads_answer()) prefill.collect_into(&answer);
    current_.prefill = &prefill;
    const auto asked = co_await prefill.ask(kept_);
    if (asked == Asked::answered) tried.verdict = co_await prefill.relay();  // a refusal: the client's to see
    current_.prefill = nullptr;
    tried.timed_out = prefill.timed_out();
    if (asked == Asked::client_left) tried.verdict = Verdict::client_left;
    tried.prefill_failed = asked != Asked::prefilled;
    if (tried.prefill_failed) co_return tried;
  }
  Outgoing outgoing;
  if (!decode_request(pairing, answer.view(), outgoing)) {
    log::warning("prefill pod {} answered nothing that connector {} can use", prefill_pod.record->key(),
                 connector_.name());
    tried.prefill_failed = true;
    co_return tried;
  }
  answer.release();
  Attempt decode(exchange_, match_, server_.pods[pair.decode.index], std::move(pair.decode), outgoing,
                 metrics::Phase::decode);
  current_.decode = &decode;
  tried.verdict = co_await decode.run(kept_);
  tried.decode_failed = tried.verdict == Verdict::next_pod;
  tried.timed_out = decode.timed_out();
  current_.decode = nullptr;
  co_return tried;
}

// The prefill half of try_together(). Nothing of it is touched after `done` is set but `beside`.
net::Task<> run_beside(std::shared_ptr<Beside> beside, Attempt& prefill, KeptAnswer& kept,
                       net::io_context& io) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  Asked outcome = Asked::next_pod;
  std::exception_ptr failure;
  try {
    outcome = co_await prefill.ask(kept);
  } catch (...) {
    failure = std::current_exception();
  }
  beside->outcome = outcome;
  beside->done = true;
  beside->prefill = nullptr;
  beside->finished.cancel();
  // Without a prefill the decode engine would wait in vain. From the top of a handler, as it may end the request.
  if (outcome != Asked::prefilled)
    boost::asio::post(io, [beside] {
      if (beside->decode != nullptr) beside->decode->abandon();
    });
  if (failure) std::rethrow_exception(failure);
}

// Both at once; the decode pod's answer is held back until the prefill pod's is complete, so that nothing of a pair
// that fails reaches the client.
net::Task<PairForward::Tried> PairForward::try_together(Pair& pair) {
  auto& worker = exchange_.session.context().worker;
  const auto& prefill_pod = server_.pods[pair.prefill->index];
  const auto pairing = pairing_with(prefill_pod);
  Tried tried;
  const Outgoing to_prefill = prefill_request(pairing);
  Outgoing to_decode;
  (void)decode_request(pairing, {}, to_decode);  // reads no answer, so it cannot fail
  KeptAnswer kept_prefill, kept_decode;
  Attempt prefill(exchange_, match_, prefill_pod, std::move(*pair.prefill), to_prefill, metrics::Phase::prefill);
  Attempt decode(exchange_, match_, server_.pods[pair.decode.index], std::move(pair.decode), to_decode,
                 metrics::Phase::decode);
  prefill.withhold_blame();
  decode.withhold_blame();
  const auto beside = std::make_shared<Beside>(worker.io());
  beside->prefill = &prefill;
  beside->decode = &decode;
  if (!worker.tasks().spawn("prefill", run_beside(beside, prefill, kept_prefill, worker.io()))) {
    tried.verdict = Verdict::client_left;  // the router ends
    co_return tried;
  }
  current_.prefill = &prefill;
  current_.decode = &decode;
  Asked decoded = Asked::next_pod;
  std::exception_ptr failure;
  try {
    decoded = co_await decode.ask(kept_decode);
  } catch (...) {
    failure = std::current_exception();
  }
  beside->decode = nullptr;
  const bool served = !failure && decoded == Asked::answered && decode.status() / 100 == 2;
  if (!served)
    boost::asio::post(worker.io(), [beside] {
      if (beside->prefill != nullptr) beside->prefill->abandon();
    });
  while (!beside->done) (void)co_await beside->finished.async_wait(net::as_result);
  current_.prefill = nullptr;
  if (failure) std::rethrow_exception(failure);
  // Each waits for the other, so when both ran out of time nobody can tell who hung: no breaker counts it, and the
  // decode pod keeps its turn as long as there is another prefill pod for it.
  const bool both_late = prefill.timed_out() && decode.timed_out();
  if (!both_late) {
    prefill.blame_for_time_out();
    decode.blame_for_time_out();
  }
  if (kept_decode.usable || kept_prefill.usable) kept_ = std::move(kept_decode.usable ? kept_decode : kept_prefill);
  tried.verdict = co_await settle_together(prefill, decode, decoded, beside->outcome);
  // Who was ended because of the other is not to blame.
  tried.prefill_failed = beside->outcome != Asked::prefilled && !prefill.abandoned();
  tried.decode_failed =
      tried.verdict == Verdict::next_pod && !both_late && (!tried.prefill_failed || !(served || decode.abandoned()));
  tried.timed_out = (!tried.prefill_failed || prefill.timed_out()) && (!tried.decode_failed || decode.timed_out());
  current_.decode = nullptr;
  co_return tried;
}

net::Task<Verdict> PairForward::settle_together(
    Attempt& prefill, Attempt& decode, Asked decoded,
    Asked prefilled) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  if (exchange_.session.client_left()) co_return Verdict::client_left;
  const bool decode_refused = decoded == Asked::answered && decode.status() / 100 != 2;
  if (decode_refused || (decoded == Asked::answered && prefilled == Asked::prefilled))
    co_return co_await decode.relay();
  decode.discard();
  if (prefilled != Asked::answered) co_return Verdict::next_pod;
  current_.decode = &prefill;  // what is to be woken
  co_return co_await prefill.relay();
}

net::Task<> PairForward::run(PairPlan& plan) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& record = exchange_.record;
  const std::size_t tries = tries_allowed(server_.spec);
  const auto interval = server_.spec.retry ? server_.spec.retry->interval : std::chrono::milliseconds(0);
  for (std::size_t i = 0; i < tries && !exchange_.session.client_left(); ++i) {
    auto pair = plan.next();
    if (!pair) break;
    if (i > 0) {
      if (!co_await pause_before_retry(exchange_, interval, current_.pause)) break;
      exchange_.shared.counters.retries->inc();
    }
    record.upstream_attempts = static_cast<int>(i) + 1;
    record.prefill_pod.clear();
    Tried tried;
    if (!pair->prefill) {
      tried = co_await try_alone(*pair);
    } else if (connector_.order() == pd::Order::together) {
      tried = co_await try_together(*pair);
    } else {
      tried = co_await try_in_turn(*pair);
    }
    if (tried.verdict != Verdict::next_pod) {
      exchange_.session.unwatch_client();
      co_return;
    }
    only_timeouts_ = only_timeouts_ && tried.timed_out;
    if (tried.prefill_failed) plan.prefill_failed();
    if (tried.decode_failed) plan.decode_failed();
  }
  exchange_.session.unwatch_client();
  if (exchange_.session.client_left()) co_return;
  co_await answer_all_failed(exchange_, std::move(kept_), only_timeouts_, "all prefill/decode attempts failed");
}

class PairSearch final : public Search {
 public:
  explicit PairSearch(Exchange& exchange) : exchange_(exchange) {}
  Found look(const model::ServerEntry& server, std::optional<net::Clock::time_point> as_of) override {
    // An engine that meets its prefill engine in a room does not start without it.
    const bool may_skip_prefill = pd::connector_for(server.spec).order() == pd::Order::prefill_first;
    plan.emplace(exchange_, server, may_skip_prefill, as_of);
    if (plan->has_pair()) return Found::reserved;
    return plan->decision().limited ? Found::busy : Found::none;
  }
  [[nodiscard]] std::string why() const override {
    std::string why = "can't schedule to target pod: ";
    const auto& decision = plan->decision();
    switch (decision.end) {
      case schedule::PairDecision::End::no_decode:
        return why + "no decode pod found";
      case schedule::PairDecision::End::filtered:
        return why.append("pods have all been filtered out by \"").append(decision.filtered_by).append("\"");
      default:
        return why + "no valid prefill-decode pod pairs found";
    }
  }

  std::optional<PairPlan> plan;

 private:
  Exchange& exchange_;
};

}  // namespace

net::Task<> forward_pair(Exchange& exchange,
                         route::Match match) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& record = exchange.record;
  exchange.states = exchange.shared.pipeline->new_states();
  Awaited current;
  exchange.session.watch_client(&on_client_left, &current);
  PairSearch search(exchange);
  auto admission = co_await admit(exchange, match, search, current.place);
  if (exchange.session.client_left()) co_return;
  if (!admission.admitted) {
    exchange.session.unwatch_client();
    record.model_route = {};
    co_await answer_error(exchange, admission.refusal, std::move(admission.message), admission.retry_after_seconds);
    co_return;
  }
  record.bound = true;
  record.model_server = match.server_key;
  record.upstream_model = route::upstream_model(match, record.model);
  record.upstream_started = Steady::now();
  PairForward forward(exchange, match, current);
  co_await forward.run(*search.plan);
}

}  // namespace warmroute::proxy
