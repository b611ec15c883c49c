#include "proxy/forward.hpp"

#include <algorithm>

#include "proxy/admit.hpp"
#include "proxy/attempt.hpp"
#include "proxy/local_answer.hpp"
#include "proxy/outgoing.hpp"
#include "proxy/pick.hpp"
#include "proxy/retry.hpp"

namespace warmroute::proxy {
namespace {

using Steady = model::RequestRecord::Steady;

/// What has to be ended when the client leaves; one of them at most.
struct Current {
  Attempt* attempt = nullptr;
  Pause* pause = nullptr;
  WaitQueues::Place* place = nullptr;
};

/// For a pod that is not among `tried`.
class PodSearch final : public Search {
 public:
  PodSearch(Exchange& exchange, const std::vector<PodId>& tried) : exchange_(exchange), tried_(tried) {}
  Found look(const model::ServerEntry& server, std::optional<net::Clock::time_point> as_of) override {
    pick = proxy::pick(exchange_, server, tried_, as_of);
    if (pick.decision.count > 0) return Found::reserved;
    return pick.decision.limited ? Found::busy : Found::none;
  }
  [[nodiscard]] std::string why() const override {
    std::string why = "can't schedule to target pod: pods have all been filtered out by \"";
    return why.append(pick.decision.filtered_by).append("\"");
  }

  Pick pick;

 private:
  Exchange& exchange_;
  const std::vector<PodId>& tried_;
};

void on_client_left(void* owner) {
  auto& current = *static_cast<Current*>(owner);
  // wake() may run the request to its end, and `current` with it.
  if (current.place != nullptr) {
    current.place->interrupt();
  } else if (current.pause != nullptr) {
    current.pause->cancel();
  } else if (current.attempt != nullptr) {
    current.attempt->wake();
  }
}

// Whether there may be another pod for a request whose pod failed. Pods that were passed over because their breakers
// are open are better than none.
bool others_left(const route::Match& match, const Pick& pick, std::span<const PodId> tried) {
  return pick.next < pick.decision.count || pick.decision.limited || tried.size() < match.server->pods.size();
}

// The next candidate, or, while the others are at their in-flight limit, one that becomes free. False: there is none.
net::Task<bool> next_pod(Exchange& exchange, route::Match& match, PodSearch& search, std::span<const PodId> tried,
                         Current& current,
                         Outgoing& outgoing) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  if (take_next(exchange, *match.server, search.pick, search.pick.best)) co_return true;
  if (!others_left(match, search.pick, tried)) co_return false;
  const auto server = match.server;
  const auto admission = co_await admit(exchange, match, search, current.place);
  if (!admission.admitted || exchange.session.client_left()) co_return false;
  if (match.server != server) outgoing = prepare(exchange, match);
  co_return true;
}

}  // namespace

net::Task<> forward(Exchange& exchange,
                    route::Match match) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& record = exchange.record;
  auto& session = exchange.session;
  exchange.states = exchange.shared.pipeline->new_states();
  Current current;
  session.watch_client(&on_client_left, &current);
  std::vector<PodId> tried;
  PodSearch search(exchange, tried);
  auto admission = co_await admit(exchange, match, search, current.place);
  if (session.client_left()) co_return;
  if (!admission.admitted) {
    session.unwatch_client();
    record.model_route = {};
    co_await answer_error(exchange, admission.refusal, std::move(admission.message), admission.retry_after_seconds);
    co_return;
  }
  auto outgoing = prepare(exchange, match);
  record.bound = true;
  record.model_server = match.server_key;
  record.upstream_started = Steady::now();

  const std::size_t tries = tries_allowed(match.server->spec);
  const auto& retry = match.server->spec.retry;
  const auto interval = retry ? retry->interval : std::chrono::milliseconds(0);
  KeptAnswer kept;
  bool only_timeouts = true;
  for (std::size_t i = 0; i < tries && !session.client_left(); ++i) {
    auto& pick = search.pick;
    if (i > 0) {
      if (!others_left(match, pick, tried)) break;
      if (!co_await pause_before_retry(exchange, interval, current.pause)) break;
      if (!co_await next_pod(exchange, match, search, tried, current, outgoing)) break;
      exchange.shared.counters.retries->inc();
    }
    const auto& pod = match.server->pods[pick.best.index];
    tried.push_back(pod.record->id());
    record.upstream_attempts = static_cast<int>(i) + 1;
    Attempt attempt(exchange, match, pod, std::move(pick.best), outgoing);
    current.attempt = &attempt;
    const auto verdict = co_await attempt.run(kept);
    current.attempt = nullptr;
    only_timeouts = only_timeouts && attempt.timed_out();
    if (verdict != Verdict::next_pod) {
      session.unwatch_client();
      co_return;
    }
  }
  session.unwatch_client();
  if (session.client_left()) co_return;
  co_await answer_all_failed(exchange, std::move(kept), only_timeouts, "request to all pods failed");
}

}  // namespace warmroute::proxy
