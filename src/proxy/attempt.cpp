#include "proxy/attempt.hpp"

#include <algorithm>

#include "base/log.hpp"
#include "http/inflate.hpp"

namespace warmroute::proxy {
namespace {

using net::Io;
using End = Outcome::End;
using Steady = model::RequestRecord::Steady;

constexpr std::size_t kept_answer_limit_bytes = 64 * 1024;
// Transfer parameters name each block of the prompt: some hundred kilobytes for the longest.
constexpr std::size_t prefill_answer_limit_bytes = 16 * 1024 * 1024;

// Decision 3.3. Everything else is the engine's answer to the client.
bool worth_another_pod(int status) noexcept { return status == 404 || status == 429 || status >= 500; }

}  // namespace

Attempt::Attempt(Exchange& exchange, const route::Match& match, const model::PodEntry& pod, Reserved reserved,
                 const Outgoing& outgoing, metrics::Phase phase)
    : exchange_(exchange),
      pod_(pod),
      guard_(std::move(reserved.guard)),
      pass_(std::move(reserved.pass)),
      gauge_(
          exchange.shared.metrics->active_upstream(match.server_key, match.route_key, exchange.record.upstream_model)),
      outgoing_(outgoing),
      call_(exchange, *match.server, pod),
      phase_(phase),
      started_(Steady::now()) {}

net::Task<bool> Attempt::read_body(base::Bytes* body, std::size_t limit) {
  auto& scratch = exchange_.session.context().scratch;
  auto& input = call_.answer.input;
  call_.deadline().set_after(call_.limited(exchange_.shared.settings.stream_idle_timeout));
  bool complete = false, ended = false;
  while (!complete) {
    scratch.payload.clear();
    std::size_t used = 0;
    const auto state = call_.answer.parser.parse_body(input.view(), scratch.payload, used);
    if (body != nullptr)
      for (const auto piece : scratch.payload) body->append(piece);
    input.erase_front(used);
    complete = state == http::BodyState::complete || (ended && call_.answer.parser.complete_at_eof());
    if (complete || ended || state == http::BodyState::bad) break;
    if (body != nullptr && body->size() > limit) break;
    const auto got = co_await call_.read();
    if (got.status == Io::ok) {
      input.append({exchange_.session.context().worker.scratch().data(), got.bytes});
    } else if (got.status == Io::eof) {
      ended = true;
    } else {
      break;
    }
  }
  call_.deadline().clear();
  if (!complete || (body != nullptr && body->size() > limit)) co_return false;
  if (!ended) call_.give_back();
  co_return true;
}

// An answer that another pod may better.
net::Task<Asked> Attempt::keep(KeptAnswer& kept) {
  base::Bytes body;
  const bool whole = co_await read_body(&body, kept_answer_limit_bytes);
  if (gone()) co_return Asked::client_left;
  if (!whole) co_return Asked::next_pod;
  kept.answer = std::move(call_.answer);
  kept.answer.head = {};  // its views follow the bytes
  http::ResponseParser again;
  kept.usable = again.parse_head(kept.answer.bytes.view(), kept.answer.head).has_value();
  kept.body = body.view();
  kept.pod = pod_.record->key();
  co_return Asked::next_pod;
}

// The answer of a prefill pod: complete to its end, or the cache is not known to be there.
net::Task<Asked> Attempt::collect() {
  const bool whole = co_await read_body(collect_into_, prefill_answer_limit_bytes);
  if (gone()) {
    settle(End::client_left);
    co_return Asked::client_left;
  }
  if (!whole) {
    blame_pod();
    call_.close();
    settle(End::cut);
    co_return Asked::next_pod;
  }
  settle(End::complete);
  const auto coding = call_.answer.head.first(http::FieldName::content_encoding);
  if (collect_into_ != nullptr && !coding.empty() && !http::equals_ignoring_case(coding, "identity")) {
    std::string text;
    if (!http::equals_ignoring_case(coding, "gzip") ||
        http::gunzip(collect_into_->view(), prefill_answer_limit_bytes, base::Bytes::padding, text) !=
            http::InflateResult::ok)
      co_return Asked::next_pod;
    collect_into_->truncate(0);
    collect_into_->append(text);
  }
  co_return Asked::prefilled;
}

void Attempt::note_relayed_error() {
  auto& record = exchange_.record;
  record.error_type = "upstream_response";
  record.metric_error_type = "upstream_response";
  record.error_origin = "upstream";
  record.error_message = "pod " + pod_.record->key() + " returned HTTP " + std::to_string(call_.answer.head.status);
}

// Reads and relays until the answer ends. `cut` also when the deadline passed or a write failed.
net::Task<Relay::Step> Attempt::pump(Relay& relay) {
  auto& session = exchange_.session;
  bool flush_due = false;
  auto step = relay.take(call_.answer.input.view(), flush_due);
  for (;;) {
    if (relay.started()) note_first_byte();
    if (flush_due) {
      call_.deadline().clear();  // the client's own deadline runs while it is slow
      if (!co_await session.flush()) co_return Relay::Step::cut;
      flush_due = false;
    }
    if (step != Relay::Step::need_more || session.write_failed()) co_return step;
    call_.deadline().set_after(call_.limited(exchange_.shared.settings.stream_idle_timeout));
    const auto got = co_await call_.read();
    if (got.status == Io::ok) step = relay.take({session.context().worker.scratch().data(), got.bytes}, flush_due);
    if (got.status == Io::eof) step = relay.take_eof(flush_due);
    if (got.status == Io::error) co_return Relay::Step::cut;
  }
}

// From here on no other pod can answer: the request's bytes go back.
void Attempt::note_first_byte() {
  if (exchange_.body_freed) return;
  exchange_.free_body();
  if (!settled_ && call_.answer.head.status / 100 == 2)  // a short answer is complete by now
    exchange_.shared.pipeline->first_byte(exchange_.view(), exchange_.states, pod_.record->id());
}

net::Task<Verdict> Attempt::relay() {
  auto& record = exchange_.record;
  record.selected_pod = pod_.record->name();  // of a pair, the one that answers
  auto& session = exchange_.session;
  Relay relay(exchange_, call_.answer, !exchange_.inspection.ask_usage.empty());
  struct Completion {
    Attempt& attempt;
    Relay& relay;
  } completion{*this, relay};
  relay.on_complete(
      [](void* owner) {
        auto& done = *static_cast<Completion*>(owner);
        done.attempt.usage_ = done.relay.usage();
        done.attempt.settle(End::complete);
      },
      &completion);
  const auto step = co_await pump(relay);
  call_.deadline().clear();
  usage_ = relay.usage();
  if (step == Relay::Step::complete && !session.write_failed()) {
    call_.give_back();
    record.upstream_ended = Steady::now();
    if (usage_.seen) record.output_tokens = usage_.completion_tokens;
    if (call_.answer.head.status >= 300) note_relayed_error();
    settle(End::complete);
    co_return Verdict::done;
  }
  call_.close();  // closes: the engine stops working for nobody
  if (gone() || session.write_failed()) {
    if (relay.started()) {
      record.error_type = record.metric_error_type = "client_disconnected";
      record.error_message = "client closed the connection";
    }
    settle(End::client_left);
    co_return Verdict::client_left;
  }
  blame_pod();
  if (!relay.started()) {
    settle(End::failed_before_first_byte);
    co_return Verdict::next_pod;
  }
  record.upstream_ended = Steady::now();
  record.error_type = record.metric_error_type = "upstream_cut";
  record.error_origin = "upstream";
  record.error_message =
      call_.timed_out() ? "upstream sent nothing before the time-out" : "upstream closed the connection";
  if (usage_.seen) record.output_tokens = usage_.completion_tokens;
  bool flush_due = false;
  relay.send_cut(record.error_message, flush_due);
  if (flush_due) (void)co_await session.flush();
  settle(End::cut);
  co_return Verdict::done;
}

net::Task<Asked> Attempt::ask(KeptAnswer& kept) {
  auto& record = exchange_.record;
  (phase_ == metrics::Phase::prefill ? record.prefill_pod : record.selected_pod) = pod_.record->name();
  exchange_.shared.pipeline->attempt_started(exchange_.view(), exchange_.states, pod_.record->id());
  if (const auto error = co_await call_.exchange_heads(outgoing_)) {
    if (gone()) {
      call_.close();
      settle(End::client_left);
      co_return Asked::client_left;
    }
    if (withhold_blame_ && call_.timed_out())
      blame_withheld_ = true;
    else if (error->source == Source::engine)
      blame_pod();
    log::v(2, "attempt {} on pod {} failed: {}", record.upstream_attempts, pod_.record->key(), error->detail);
    co_return Asked::next_pod;
  }
  const int status = call_.answer.head.status;
  if (status >= 500) blame_pod();
  if (status < 400) pass_.head_good();
  if (phase_ == metrics::Phase::prefill && status / 100 == 2) co_return co_await collect();
  record.upstream_status = status;
  if (worth_another_pod(status)) co_return co_await keep(kept);
  call_.deadline().clear();
  co_return Asked::answered;
}

net::Task<Verdict> Attempt::run(KeptAnswer& kept) {
  switch (co_await ask(kept)) {
    case Asked::answered:
      co_return co_await relay();
    case Asked::client_left:
      co_return Verdict::client_left;
    case Asked::prefilled:
    case Asked::next_pod:
      break;
  }
  co_return Verdict::next_pod;
}

void Attempt::observe_phase(End end) noexcept {
  int status = call_.answer.head.status;
  if (end == End::client_left) status = 499;
  if (status == 0 || (end != End::complete && status < 400)) status = 500;
  const auto took = std::chrono::duration<double>(Steady::now() - started_).count();
  exchange_.shared.metrics->phase_took(exchange_.record, phase_, status, took);
}

// The total time-out says nothing about the pod: an answer may have been flowing all the time. Nor does an end that the
// other pod of a pair is the reason of.
void Attempt::blame_pod() {
  if (!call_.abandoned() && !call_.out_of_total_time()) pass_.failed();
}

void Attempt::settle(End end) noexcept {
  if (settled_) return;
  settled_ = true;
  call_.deadline().clear();
  if (end == End::complete && call_.answer.head.status < 400) pass_.complete();
  pass_.leave();
  gauge_.release();
  const auto pod = guard_.pod();
  guard_.release();
  const auto& counters = exchange_.shared.counters;
  switch (end) {
    case End::complete:
      counters.outcome_complete->inc();
      break;
    case End::failed_before_first_byte:
      counters.outcome_failed->inc();
      break;
    case End::cut:
      counters.outcome_cut->inc();
      break;
    case End::client_left:
      counters.outcome_client_left->inc();
      break;
  }
  exchange_.record.end = end;
  if (phase_ != metrics::Phase::whole) observe_phase(end);
  if (!pod) return;
  Outcome outcome;
  outcome.end = end;
  outcome.status = call_.answer.head.status;
  if (usage_.seen) {
    outcome.prompt_tokens = usage_.prompt_tokens;
    outcome.cached_tokens = usage_.cached_tokens;
  }
  exchange_.shared.pipeline->attempt_done(exchange_.view(), exchange_.states, pod->id(), outcome);
}

}  // namespace warmroute::proxy
