#include "proxy/admit.hpp"

#include <algorithm>

namespace warmroute::proxy {
namespace {

using openai::ErrorKind;

// Who looked in vain looks again by himself, for what frees a pod without a call: an engine's queue that drained, a
// breaker that lets requests back in.
constexpr std::chrono::milliseconds look_again{100}, wait_for_call{1000};

void refuse(Admission& admission, const Search& search) {
  admission.refusal = ErrorKind::all_filtered;
  admission.message = search.why();
}

void refuse_busy(Exchange& exchange, const route::Match& match, Admission& admission, ErrorKind kind, const char* why) {
  admission.refusal = kind;
  admission.message = "every pod of " + match.server->key + " is at its in-flight limit, and " + why;
  admission.retry_after_seconds = exchange.shared.queues->retry_after_seconds(*match.server);
}

// The table may have changed while the request waited. False: its server is gone, or has no pods any more.
bool follow_table(Exchange& exchange, route::Match& match, WaitQueues::Place& place) {
  const auto& table = exchange.session.context().table;
  auto server = table->snapshot()->server(match.server->key);
  if (server == match.server) return true;
  if (!server || server->pods.empty()) return false;
  exchange.servers.push_back(server);  // the record's views follow the server that is used last
  match.server = server;
  place.move_to(std::move(server));
  return true;
}

net::Task<> wait(Exchange& exchange, route::Match& match, Search& search, WaitQueues::Place& place,
                 Admission& admission) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& queues = *exchange.shared.queues;
  const auto until = net::Clock::now() + std::min(queues.limits().timeout, exchange.time_left());
  for (;;) {
    if (exchange.session.client_left()) {
      queues.count_rejected(*match.server, "client_left");
      co_return;
    }
    const bool look = place.arm();
    if (!follow_table(exchange, match, place)) {
      queues.count_rejected(*match.server, "no_pods");
      admission.refusal = ErrorKind::no_pods;
      admission.message = "no available pods for model server: " + match.server->key;
      co_return;
    }
    if (look) {
      const auto found = search.look(*match.server, place.as_of());
      if (found == Search::Found::reserved) {
        place.served();
        admission.admitted = true;
        co_return;
      }
      place.pass_on();
      if (found == Search::Found::none) {
        queues.count_rejected(*match.server, "filtered");
        refuse(admission, search);
        co_return;
      }
    }
    const auto now = net::Clock::now();
    if (now >= until) {
      queues.count_rejected(*match.server, "timeout");
      refuse_busy(exchange, match, admission, ErrorKind::queue_timeout, "none became free in time");
      co_return;
    }
    co_await place.sleep(std::min(until, now + (look ? look_again : wait_for_call)));
  }
}

}  // namespace

net::Task<Admission> admit(
    Exchange& exchange, route::Match& match, Search& search,
    WaitQueues::Place*& awaited) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  Admission admission;
  const bool limited = exchange.shared.pipeline->in_flight_limit() != schedule::Pipeline::no_limit;
  auto& queues = *exchange.shared.queues;
  if (!limited || !queues.crowded(*match.server)) {
    const auto found = search.look(*match.server, std::nullopt);
    admission.admitted = found == Search::Found::reserved;
    if (found == Search::Found::none) refuse(admission, search);
    if (found != Search::Found::busy) co_return admission;
  }
  auto refusal = WaitQueues::Refusal::none;
  const auto bytes = exchange.body.size() + exchange.decoded.size();
  auto place = queues.join(match.server, bytes, exchange.session.context().worker.io(), refusal);
  if (!place) {
    refuse_busy(exchange, match, admission, ErrorKind::queue_full,
                refusal == WaitQueues::Refusal::full ? "too many requests wait" : "too many bytes wait");
    co_return admission;
  }
  awaited = &place;
  co_await wait(exchange, match, search, place, admission);
  awaited = nullptr;
  co_return admission;
}

}  // namespace warmroute::proxy
