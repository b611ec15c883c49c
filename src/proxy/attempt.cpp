#include "proxy/attempt.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "base/log.hpp"
#include "http/forward_headers.hpp"
#include "proxy/local_answer.hpp"
#include "proxy/relay.hpp"

namespace warmroute::proxy {
namespace {

using net::Io;
using openai::ErrorKind;
using End = Outcome::End;
using Steady = model::RequestRecord::Steady;

constexpr std::size_t kept_answer_limit_bytes = 64 * 1024;
constexpr std::size_t engine_head_limit_bytes = 64 * 1024;

/// The request as it goes to every pod: head and pieces of the body.
struct Outgoing {
  std::string head;
  std::vector<std::string_view> body;
};

/// The last complete answer of an engine that was not good enough to be relayed at once.
struct KeptAnswer {
  EngineAnswer answer;
  std::string body;
  std::string pod;
  bool usable = false;
};

/// How one attempt ended, for the loop over the candidates.
enum class Verdict : std::uint8_t { done, next_pod, client_left };

// Decision 3.3. Everything else is the engine's answer to the client.
bool worth_another_pod(int status) noexcept { return status == 404 || status == 429 || status >= 500; }

// One try on one pod. Lives in the frame of forward(); everything is released by its destructor.
class Attempt {
 public:
  Attempt(Exchange& exchange, const route::Match& match, const model::PodEntry& pod, model::InFlightGuard guard,
          const Outgoing& outgoing)
      : exchange_(exchange),
        match_(match),
        pod_(pod),
        guard_(std::move(guard)),
        gauge_(exchange.shared.metrics->active_upstream(match.server_key, match.route_key,
                                                        exchange.record.upstream_model)),
        outgoing_(outgoing),
        deadline_(
            exchange.session.context().worker.deadlines(),
            [](void* self) {
              static_cast<Attempt*>(self)->late_ = true;
              static_cast<Attempt*>(self)->wake();
            },
            this) {}
  ~Attempt() { settle(End::failed_before_first_byte); }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  net::Task<Verdict> run(KeptAnswer& kept);
  /// The client left: whatever is awaited ends.
  void wake();
  [[nodiscard]] bool timed_out() const noexcept { return late_; }

 private:
  enum class Phase : std::uint8_t { connecting, sending, waiting };

  [[nodiscard]] bool gone() const noexcept { return exchange_.session.client_left(); }
  net::Task<std::optional<Error>> connect();
  net::Task<std::optional<Error>> handshake();
  net::Task<std::optional<Error>> send();
  net::Task<std::optional<Error>> receive_head();
  net::Task<std::optional<Error>> exchange_heads();
  net::Task<Verdict> keep(KeptAnswer& kept);
  net::Task<Verdict> relay();
  net::Task<Relay::Step> pump(Relay& relay);
  net::Task<net::IoResult> read_engine();
  void give_back();
  void settle(End end) noexcept;
  void note_relayed_error();
  std::chrono::milliseconds limited(std::chrono::milliseconds limit) const;
  [[nodiscard]] Error failure(Errc code, std::string why, bool nothing_came) const;

  Exchange& exchange_;
  const route::Match& match_;
  const model::PodEntry& pod_;
  model::InFlightGuard guard_;
  metrics::GaugeGuard gauge_;
  const Outgoing& outgoing_;
  net::Deadline deadline_;
  std::unique_ptr<net::Socket> connecting_;
  std::unique_ptr<net::Connection> engine_;
  EngineAnswer answer_;
  openai::Usage usage_;
  Phase phase_ = Phase::connecting;
  bool reused_ = false, late_ = false, sent_ = false, settled_ = false;
};

void Attempt::wake() {
  switch (phase_) {
    case Phase::connecting:
      if (connecting_) {
        net::error_code ignored;
        connecting_->cancel(ignored);
      }
      return;
    case Phase::sending:
      if (engine_) engine_->close();
      return;
    case Phase::waiting:
      if (engine_) engine_->interrupt();
      return;
  }
}

// A limit cut down to what the total time-out leaves.
std::chrono::milliseconds Attempt::limited(std::chrono::milliseconds limit) const {
  const auto total = exchange_.shared.settings.total_timeout;
  if (total.count() == 0) return limit;
  const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(Steady::now() - exchange_.record.started);
  return std::min(limit, std::max(total - spent, std::chrono::milliseconds(0)));
}

Error Attempt::failure(Errc code, std::string why, bool nothing_came) const {
  const bool stale = reused_ && nothing_came && !late_ && !gone();
  return Error{code, Source::engine, stale ? Retry::fresh_connection : Retry::next_pod, std::move(why)};
}

net::Task<std::optional<Error>> Attempt::connect() {
  phase_ = Phase::connecting;
  auto& io = exchange_.session.context().worker.io();
  net::error_code ec;
  const auto address = boost::asio::ip::make_address(pod_.record->ip(), ec);
  if (ec) co_return failure(Errc::refused, "bad pod address", true);
  connecting_ = std::make_unique<net::Socket>(io);
  const auto& settings = exchange_.shared.settings;
  const auto header_limit = match_.server->spec.timeout.value_or(settings.response_header_timeout);
  deadline_.set_after(limited(std::min(settings.connect_timeout, header_limit)));
  auto [connect_ec] = co_await connecting_->async_connect({address, pod_.port}, net::as_result);
  auto socket = std::move(connecting_);
  if (gone()) co_return failure(Errc::cancelled, "client closed the connection", true);
  if (late_) co_return failure(Errc::timeout, "connect timed out", true);
  if (connect_ec) {
    if (exchange_.shared.connect_failed) exchange_.shared.connect_failed(pod_.record->id());
    co_return failure(Errc::refused, connect_ec.message(), true);
  }
  exchange_.shared.counters.connects->inc();
  socket->set_option(boost::asio::ip::tcp::no_delay(true), ec);
  net::SslPtr tls;
  if (match_.server->spec.https)
    tls = exchange_.shared.client_tls->session(socket->native_handle(), pod_.record->host());
  if (match_.server->spec.https && !tls) co_return failure(Errc::tls, "no TLS session", true);
  engine_ = std::make_unique<net::Connection>(std::move(*socket), std::move(tls));
  if (engine_->is_tls()) {  // under the connect time-out: the handshake is part of connecting
    phase_ = Phase::sending;
    if (auto error = co_await handshake()) co_return error;
  }
  deadline_.set_after(limited(header_limit));
  co_return std::nullopt;
}

net::Task<std::optional<Error>> Attempt::handshake() {
  for (;;) {
    const auto step = engine_->try_handshake();
    if (step.status == Io::ok) co_return std::nullopt;
    net::error_code ec = step.ec;
    if (step.status == Io::would_block) ec = co_await engine_->wait_readable();
    if (step.status == Io::would_block_write) ec = co_await engine_->wait_writable();
    if (gone()) co_return failure(Errc::cancelled, "client closed the connection", true);
    if (late_) co_return failure(Errc::timeout, "TLS handshake timed out", true);
    if (ec || step.status == Io::error || step.status == Io::eof)
      co_return failure(Errc::tls, "TLS handshake failed: " + engine_->tls_failure(), true);
  }
}

net::Task<std::optional<Error>> Attempt::send() {
  phase_ = Phase::sending;
  sent_ = true;
  std::vector<iovec> pieces;
  pieces.reserve(outgoing_.body.size() + 1);
  pieces.push_back({const_cast<char*>(outgoing_.head.data()), outgoing_.head.size()});
  for (const auto piece : outgoing_.body) pieces.push_back({const_cast<char*>(piece.data()), piece.size()});
  std::span<iovec> rest = pieces;
  while (!rest.empty()) {
    const auto wrote = engine_->try_write(rest);
    std::size_t bytes = wrote.bytes;
    while (!rest.empty() && bytes >= rest.front().iov_len) {
      bytes -= rest.front().iov_len;
      rest = rest.subspan(1);
    }
    if (bytes > 0) {
      rest.front().iov_base = static_cast<char*>(rest.front().iov_base) + bytes;
      rest.front().iov_len -= bytes;
    }
    if (wrote.status == Io::ok) continue;
    net::error_code ec = wrote.ec;
    if (wrote.status == Io::would_block) ec = co_await engine_->wait_writable();
    if (wrote.status == Io::would_block_read) ec = co_await engine_->wait_readable();
    if (gone()) co_return failure(Errc::cancelled, "client closed the connection", true);
    if (late_) co_return failure(Errc::timeout, "time-out while the request was sent", true);
    // An engine may answer and close before it has read everything: its answer counts, if there is one.
    if (ec || wrote.status == Io::error || wrote.status == Io::eof) {
      if (engine_->is_open() && !reused_) break;
      co_return failure(Errc::reset, "connection lost while the request was sent", true);
    }
  }
  co_return std::nullopt;
}

// Waits until there is something to read, the deadline passed or the client left.
net::Task<net::IoResult> Attempt::read_engine() {
  phase_ = Phase::waiting;
  for (;;) {
    if (gone() || late_) co_return net::IoResult{Io::error, 0, boost::asio::error::operation_aborted};
    const auto ec = co_await engine_->wait_readable();
    if (gone() || late_ || ec) co_return net::IoResult{Io::error, 0, boost::asio::error::operation_aborted};
    const auto got = engine_->try_read(exchange_.session.context().worker.scratch());
    if (got.status == Io::would_block) continue;
    if (got.status == Io::would_block_write) {
      phase_ = Phase::sending;
      const auto write_ec = co_await engine_->wait_writable();
      phase_ = Phase::waiting;
      if (write_ec) co_return net::IoResult{Io::error, 0, write_ec};
      continue;
    }
    co_return got;
  }
}

net::Task<std::optional<Error>> Attempt::receive_head() {
  auto& input = answer_.input;
  http::HeadEnd end;
  bool nothing_came = true;
  for (;;) {
    const auto state = input.empty() ? http::HeadEnd::State::need_more : end.feed(input.view());
    if (state == http::HeadEnd::State::bad_framing)
      co_return failure(Errc::bad_framing, "malformed response head", false);
    if (state == http::HeadEnd::State::found) {
      answer_.bytes.truncate(0);
      answer_.bytes.append(input.view().substr(0, end.size()));
      input.erase_front(end.size());
      answer_.parser = http::ResponseParser();
      auto parsed = answer_.parser.parse_head(answer_.bytes.view(), answer_.head, exchange_.head.method == "HEAD");
      if (!parsed) co_return parsed.error();
      if (answer_.head.status == 101) co_return failure(Errc::bad_framing, "engine switched protocols", false);
      if (answer_.head.status / 100 != 1) co_return std::nullopt;
      end.reset();  // 100, 103 and the like: the client gets one final answer
      continue;
    }
    if (input.size() > engine_head_limit_bytes) co_return failure(Errc::bad_framing, "response head too large", false);
    const auto got = co_await read_engine();
    if (gone()) co_return failure(Errc::cancelled, "client closed the connection", nothing_came);
    if (late_) co_return failure(Errc::timeout, "no response head in time", nothing_came);
    if (got.status == Io::eof)
      co_return failure(Errc::closed, "connection closed before the response head", nothing_came);
    if (got.status != Io::ok) co_return failure(Errc::reset, "connection lost before the response head", nothing_came);
    nothing_came = false;
    input.append({exchange_.session.context().worker.scratch().data(), got.bytes});
  }
}

// Lease or connect, send, receive the head; once more on a fresh connection when a pooled one was closed already.
net::Task<std::optional<Error>> Attempt::exchange_heads() {
  auto& context = exchange_.session.context();
  const upstream::EngineKey key{pod_.record->id(), pod_.port};
  engine_ = context.pool.take(key);
  reused_ = engine_ != nullptr;
  const auto& settings = exchange_.shared.settings;
  if (reused_) deadline_.set_after(limited(match_.server->spec.timeout.value_or(settings.response_header_timeout)));
  for (;;) {
    std::optional<Error> error;
    if (!engine_) error = co_await connect();
    if (!error) error = co_await send();
    if (!error) error = co_await receive_head();
    if (!error || error->retry != Retry::fresh_connection) co_return error;
    context.shared.counters.fresh_connection_retries->inc();
    engine_.reset();
    answer_ = {};
    reused_ = false;
  }
}

// Reads the whole body of an answer that another pod may better, up to the limit.
net::Task<Verdict> Attempt::keep(KeptAnswer& kept) {
  std::string body;
  auto& scratch = exchange_.session.context().scratch;
  deadline_.set_after(limited(exchange_.shared.settings.stream_idle_timeout));
  bool complete = false, ended = false;
  while (!complete) {
    scratch.payload.clear();
    std::size_t used = 0;
    const auto state = answer_.parser.parse_body(answer_.input.view(), scratch.payload, used);
    for (const auto piece : scratch.payload) body += piece;
    answer_.input.erase_front(used);
    complete = state == http::BodyState::complete || (ended && answer_.parser.complete_at_eof());
    if (complete || ended || state == http::BodyState::bad || body.size() > kept_answer_limit_bytes) break;
    const auto got = co_await read_engine();
    if (got.status == Io::ok) {
      answer_.input.append({exchange_.session.context().worker.scratch().data(), got.bytes});
    } else if (got.status == Io::eof) {
      ended = true;
    } else {
      break;
    }
  }
  if (gone()) co_return Verdict::client_left;
  if (!complete || body.size() > kept_answer_limit_bytes) co_return Verdict::next_pod;
  if (!ended) give_back();
  kept.answer = std::move(answer_);
  kept.answer.head = {};  // its views follow the bytes
  http::ResponseParser again;
  kept.usable = again.parse_head(kept.answer.bytes.view(), kept.answer.head).has_value();
  kept.body = std::move(body);
  kept.pod = pod_.record->key();
  co_return Verdict::next_pod;
}

void Attempt::give_back() {
  if (!engine_ || !answer_.head.keep_alive || !answer_.input.empty() ||
      answer_.head.framing.kind == http::Framing::Kind::until_close)
    return;
  if (pod_.record->left() || exchange_.shared.closing.load(std::memory_order_relaxed)) return;
  exchange_.session.context().pool.give({pod_.record->id(), pod_.port}, std::move(engine_));
}

void Attempt::note_relayed_error() {
  auto& record = exchange_.record;
  record.error_type = "upstream_response";
  record.metric_error_type = "upstream_response";
  record.error_origin = "upstream";
  record.error_message = "pod " + pod_.record->key() + " returned HTTP " + std::to_string(answer_.head.status);
}

// Reads and relays until the answer ends. `cut` also when the deadline passed or a write failed.
net::Task<Relay::Step> Attempt::pump(Relay& relay) {
  auto& session = exchange_.session;
  bool flush_due = false;
  auto step = relay.take(answer_.input.view(), flush_due);
  for (;;) {
    if (relay.started()) exchange_.free_body();
    if (flush_due) {
      deadline_.clear();  // the client's own deadline runs while it is slow
      if (!co_await session.flush()) co_return Relay::Step::cut;
      flush_due = false;
    }
    if (step != Relay::Step::need_more || session.write_failed()) co_return step;
    deadline_.set_after(limited(exchange_.shared.settings.stream_idle_timeout));
    const auto got = co_await read_engine();
    if (got.status == Io::ok) step = relay.take({session.context().worker.scratch().data(), got.bytes}, flush_due);
    if (got.status == Io::eof) step = relay.take_eof(flush_due);
    if (got.status == Io::error) co_return Relay::Step::cut;
  }
}

net::Task<Verdict> Attempt::relay() {
  auto& record = exchange_.record;
  auto& session = exchange_.session;
  Relay relay(exchange_, answer_, !exchange_.inspection.ask_usage.empty());
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
  deadline_.clear();
  usage_ = relay.usage();
  if (step == Relay::Step::complete && !session.write_failed()) {
    give_back();
    record.upstream_ended = Steady::now();
    if (usage_.seen) record.output_tokens = usage_.completion_tokens;
    if (answer_.head.status >= 300) note_relayed_error();
    settle(End::complete);
    co_return Verdict::done;
  }
  engine_.reset();  // closes: the engine stops working for nobody
  if (gone() || session.write_failed()) {
    if (relay.started()) {
      record.error_type = record.metric_error_type = "client_disconnected";
      record.error_message = "client closed the connection";
    }
    settle(End::client_left);
    co_return Verdict::client_left;
  }
  if (!relay.started()) {
    settle(End::failed_before_first_byte);
    co_return Verdict::next_pod;
  }
  record.upstream_ended = Steady::now();
  record.error_type = record.metric_error_type = "upstream_cut";
  record.error_origin = "upstream";
  record.error_message = late_ ? "upstream sent nothing before the time-out" : "upstream closed the connection";
  if (usage_.seen) record.output_tokens = usage_.completion_tokens;
  bool flush_due = false;
  relay.send_cut(record.error_message, flush_due);
  if (flush_due) (void)co_await session.flush();
  settle(End::cut);
  co_return Verdict::done;
}

net::Task<Verdict> Attempt::run(KeptAnswer& kept) {
  auto& record = exchange_.record;
  record.selected_pod = pod_.record->name();
  if (const auto error = co_await exchange_heads()) {
    if (gone()) {
      engine_.reset();
      settle(End::client_left);
      co_return Verdict::client_left;
    }
    log::v(2, "attempt {} on pod {} failed: {}", record.upstream_attempts, pod_.record->key(), error->detail);
    co_return Verdict::next_pod;
  }
  record.upstream_status = answer_.head.status;
  if (worth_another_pod(answer_.head.status)) co_return co_await keep(kept);
  co_return co_await relay();
}

void Attempt::settle(End end) noexcept {
  if (settled_) return;
  settled_ = true;
  deadline_.clear();
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
  if (!sent_ || !pod) return;
  Outcome outcome;
  outcome.end = end;
  outcome.status = answer_.head.status;
  if (usage_.seen) {
    outcome.prompt_tokens = usage_.prompt_tokens;
    outcome.cached_tokens = usage_.cached_tokens;
  }
  exchange_.shared.pipeline->attempt_done(exchange_.view(), exchange_.states, pod->id(), outcome);
}

// The candidates of one request, best first, and the guard of the best.
struct Pick {
  schedule::Decision decision;
  model::InFlightGuard guard;
};

Pick pick(Exchange& exchange, const model::ServerEntry& server) {
  auto& pods = exchange.session.context().scratch.pods;
  const auto now = model::Clock::now();
  Pick pick;
  constexpr int tries = 4;
  for (int i = 0; i < tries; ++i) {
    pods.clear();
    for (const auto& entry : server.pods) {
      PodView view;
      view.id = entry.record->id();
      view.name = entry.record->key();
      view.in_flight = entry.record->in_flight();
      view.load = entry.record->fresh_sample(now, exchange.shared.settings.sample_max_age);
      view.loaded_models = *entry.loaded_models;
      pods.push_back(view);
    }
    pick.decision = exchange.shared.pipeline->run(exchange.view(), exchange.states, pods);
    if (pick.decision.count == 0) return pick;
    const auto best = pick.decision.candidates[0].index;
    // Another worker may have chosen the same pod meanwhile: then the scores are old.
    pick.guard = i + 1 < tries ? model::InFlightGuard::take_if_unchanged(server.pods[best].record, pods[best].in_flight)
                               : model::InFlightGuard(server.pods[best].record);
    if (pick.guard.pod()) return pick;
  }
  return pick;
}

Outgoing prepare(Exchange& exchange, const route::Match& match) {
  auto& record = exchange.record;
  auto& inspection = exchange.inspection;
  record.upstream_model = record.model;
  exchange.edits = inspection.ask_usage;
  if (!match.server->spec.model.empty() && !match.lora) {
    record.upstream_model = match.server->spec.model;
    std::string text = "\"";
    openai::append_json_escaped(text, match.server->spec.model, false);
    text += '"';
    for (const auto& span : inspection.model_values) exchange.edits.push_back({span, text});
  }
  // A gzip body goes out as received unless something is spliced in.
  const bool decoded = exchange.gzip && !exchange.edits.empty();
  const auto original = decoded ? std::string_view(exchange.decoded) : exchange.body.view();
  Outgoing outgoing;
  outgoing.body = http::splice(original, exchange.edits);
  http::RequestForwarding forwarding;
  forwarding.target = exchange.target;
  forwarding.request_id = exchange.request_id;
  forwarding.has_body = true;
  forwarding.content_length = http::total_size(outgoing.body);
  forwarding.drop_content_encoding = decoded;
  std::string client_address;
  if (exchange.shared.settings.forwarded_headers) {
    client_address = exchange.session.client_address();
    forwarding.forwarded_for = client_address;
    forwarding.forwarded_proto = exchange.session.client().is_tls() ? "https" : "http";
  }
  outgoing.head.reserve(exchange.bytes.size() + 128);
  http::append_request_head(outgoing.head, exchange.head, forwarding);
  return outgoing;
}

// The interval before a retry, cut short when the client leaves or the router drains.
class Pause {
 public:
  Pause(Exchange& exchange, std::chrono::milliseconds length)
      : exchange_(exchange), length_(length), timer_(exchange.session.context().worker.io()) {}
  net::Task<> wait() {
    // In slices, so that a drain that begins meanwhile is noticed.
    const auto until = net::Clock::now() + length_;
    while (!cancelled_ && !exchange_.shared.draining.load(std::memory_order_relaxed) && net::Clock::now() < until) {
      timer_.expires_at(std::min(until, net::Clock::now() + std::chrono::milliseconds(50)));
      auto [ec] = co_await timer_.async_wait(net::as_result);
      if (ec) co_return;  // cancelled: the client left, which the caller sees
    }
  }
  void cancel() {
    cancelled_ = true;
    timer_.cancel();
  }

 private:
  Exchange& exchange_;
  std::chrono::milliseconds length_;
  net::Timer timer_;
  bool cancelled_ = false;
};

/// What has to be ended when the client leaves.
struct Current {
  Attempt* attempt = nullptr;
  Pause* pause = nullptr;
};

void on_client_left(void* owner) {
  auto& current = *static_cast<Current*>(owner);
  // One of them at most; wake() may run the request to its end, and `current` with it.
  if (current.pause != nullptr) {
    current.pause->cancel();
  } else if (current.attempt != nullptr) {
    current.attempt->wake();
  }
}

net::Task<> answer_kept(Exchange& exchange,
                        KeptAnswer kept) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& record = exchange.record;
  const auto& head = kept.answer.head;
  if (exchange.shared.draining.load(std::memory_order_relaxed)) exchange.keep_alive = false;
  http::ResponseForwarding forwarding;
  forwarding.request_id = exchange.request_id;
  forwarding.date = http::http_date();
  forwarding.framing = {http::Framing::Kind::length, kept.body.size()};
  forwarding.close = !exchange.keep_alive;
  forwarding.http10_keep_alive = exchange.head.version == 10 && exchange.keep_alive;
  if (exchange.head.method == "HEAD") {
    forwarding.framing = {};
    forwarding.keep_content_length = true;
  }
  std::string out;
  http::append_response_head(out, head, forwarding);
  out += kept.body;
  record.status = record.upstream_status = head.status;
  record.error_type = record.metric_error_type = "upstream_response";
  record.error_origin = "upstream";
  record.error_message = "pod " + kept.pod + " returned HTTP " + std::to_string(head.status);
  exchange.answered = true;
  (void)co_await exchange.session.write_all(out);  // a client that is gone needs no answer
}

}  // namespace

net::Task<> forward(Exchange& exchange,
                    route::Match match) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& record = exchange.record;
  const auto& server = *match.server;
  exchange.states = exchange.shared.pipeline->new_states();
  Pick chosen = pick(exchange, server);
  if (chosen.decision.count == 0) {
    std::string message = "can't schedule to target pod: pods have all been filtered out by \"";
    message.append(chosen.decision.filtered_by).append("\"");
    record.model_route = {};
    co_await answer_error(exchange, ErrorKind::all_filtered, std::move(message));
    co_return;
  }
  const Outgoing outgoing = prepare(exchange, match);
  record.bound = true;
  record.model_server = match.server_key;
  record.upstream_started = Steady::now();

  std::size_t tries = chosen.decision.count;
  if (server.spec.retry)
    tries = std::min<std::size_t>(tries, static_cast<std::size_t>(std::max(server.spec.retry->attempts, 0)) + 1);
  KeptAnswer kept;
  Current current;
  bool only_timeouts = true;
  exchange.session.watch_client(&on_client_left, &current);
  for (std::size_t i = 0; i < tries && !exchange.session.client_left(); ++i) {
    if (i > 0) {
      exchange.shared.counters.retries->inc();
      if (server.spec.retry && server.spec.retry->interval.count() > 0) {
        Pause pause(exchange, server.spec.retry->interval);
        current.pause = &pause;
        co_await pause.wait();
        current.pause = nullptr;
        if (exchange.session.client_left()) break;
      }
    }
    const auto& pod = server.pods[chosen.decision.candidates[i].index];
    auto guard = i == 0 ? std::move(chosen.guard) : model::InFlightGuard(pod.record);
    record.upstream_attempts = static_cast<int>(i) + 1;
    Attempt attempt(exchange, match, pod, std::move(guard), outgoing);
    current.attempt = &attempt;
    const auto verdict = co_await attempt.run(kept);
    current.attempt = nullptr;
    only_timeouts = only_timeouts && attempt.timed_out();
    if (verdict != Verdict::next_pod) {
      exchange.session.unwatch_client();
      co_return;
    }
  }
  exchange.session.unwatch_client();
  if (exchange.session.client_left()) co_return;
  record.upstream_ended = Steady::now();
  if (kept.usable) {
    co_await answer_kept(exchange, std::move(kept));
    co_return;
  }
  co_await answer_error(exchange, only_timeouts ? ErrorKind::all_pods_timed_out : ErrorKind::all_pods_failed,
                        "request to all pods failed");
  record.error_message = "request processing failed";
}

}  // namespace warmroute::proxy
