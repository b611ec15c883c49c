#include "status/lease.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/log.hpp"
#include "status/lease_record.hpp"

namespace warmroute::status {

namespace {

/// A Lease whose renewal waits behind the lists of a start is lost.
kube::Api urgent(kube::Api api) {
  return [api = std::move(api)](kube::Request request) {
    request.urgent = true;
    return api(std::move(request));
  };
}

}  // namespace

struct LeaseState {
  LeaseState(net::io_context& control, kube::Api a, LeaseOptions o, LeaseHooks h)
      : api(urgent(std::move(a))), options(std::move(o)), hooks(std::move(h)), timer(control) {}
  kube::Api api;
  const LeaseOptions options;
  const LeaseHooks hooks;
  net::Timer timer;
  bool stopped = false;
  bool told_leading = false;
  bool forbidden_told = false;
  std::string trouble;  ///< last one that was logged
  std::optional<LeaseRecord> seen;
  net::Clock::time_point seen_at{};        ///< when `seen` last changed
  net::Clock::time_point believe_until{};  ///< we lead until then

  [[nodiscard]] std::string collection() const {
    return "/apis/coordination.k8s.io/v1/namespaces/" + options.ns + "/leases";
  }
  [[nodiscard]] std::string full_name() const { return options.ns + "/" + options.name; }
  [[nodiscard]] bool leads() const { return net::Clock::now() < believe_until; }
  [[nodiscard]] bool holds() const { return seen && seen->holder == options.identity; }

  void look_at(LeaseRecord record) {
    const bool same = seen && seen->holder == record.holder && seen->renew_time == record.renew_time;
    if (!same) seen_at = net::Clock::now();
    seen = std::move(record);
  }

  void won(net::Clock::time_point asked_at) {
    tell();  // belief may have run out since it was last told, and what was begun then was given up
    believe_until = asked_at + options.believe;
    trouble.clear();
    forbidden_told = false;
    tell();
  }

  void lost() {
    believe_until = {};
    tell();
  }

  /// Says what changed, also when belief ran out by itself.
  void tell() {
    if (leads() == told_leading) return;
    told_leading = leads();
    log::info("{} Lease {}: this replica {} status and renews the webhook's certificate",
              told_leading ? "holds" : "does not hold", full_name(), told_leading ? "writes" : "no longer writes");
    if (hooks.changed) hooks.changed(told_leading);
  }

  void fail(const Result<kube::Response>& answer) {
    if (answer && answer->status == 403) {
      if (!std::exchange(forbidden_told, true))
        log::warning(
            "Lease {} is refused ({}): no status, no Events and no renewal of the webhook's certificate; "
            "everything else works",
            full_name(), answer->text());
      return;
    }
    std::string text = answer ? answer->text() : answer.error().detail;
    if (text != trouble) log::warning("Lease {}: {}", full_name(), text);
    trouble = std::move(text);
  }
};

namespace {

using StatePtr = std::shared_ptr<LeaseState>;
enum class Outcome : std::uint8_t { holding, following, again, failed, forbidden };

Outcome outcome_of_failure(LeaseState& state, const Result<kube::Response>& answer) {
  state.fail(answer);
  return answer && answer->status == 403 ? Outcome::forbidden : Outcome::failed;
}

/// Takes over what a write gave back. \param asked_at before the write was sent.
Outcome take_answer(LeaseState& state, const Result<kube::Response>& answer, net::Clock::time_point asked_at) {
  // Somebody was faster. Where nothing was seen, nothing can be gone: a 404 then is a namespace that is not there.
  if (answer && (answer->status == 409 || (answer->status == 404 && state.seen))) {
    state.seen.reset();
    return Outcome::again;
  }
  if (!answer || !answer->ok()) return outcome_of_failure(state, answer);
  auto record = parse_lease(answer->body);
  if (!record) return Outcome::failed;
  state.look_at(std::move(*record));
  if (!state.holds()) return Outcome::following;
  state.won(asked_at);
  return Outcome::holding;
}

net::Task<Outcome> create(StatePtr state) {
  LeaseRecord record;
  record.holder = state->options.identity;
  record.duration_seconds = static_cast<std::uint32_t>(state->options.duration.count());
  kube::Request request("POST", state->collection());
  request.body = lease_json(state->options.ns, state->options.name, record, state->hooks.now());
  const auto asked_at = net::Clock::now();
  const auto answer = co_await state->api(std::move(request));
  co_return state->stopped ? Outcome::failed : take_answer(*state, answer, asked_at);
}

/// Writes ourselves into the Lease as it was seen.
net::Task<Outcome> write(StatePtr state) {
  LeaseRecord record = *state->seen;
  const bool acquired = !state->holds();
  if (acquired) ++record.transitions;
  record.holder = state->options.identity;
  record.duration_seconds = static_cast<std::uint32_t>(state->options.duration.count());
  kube::Request request("PATCH", state->collection() + "/" + state->options.name);
  request.content_type = "application/merge-patch+json";
  request.body = lease_patch(record, state->hooks.now(), acquired);
  request.timeout = state->options.believe;
  const auto asked_at = net::Clock::now();
  const auto answer = co_await state->api(std::move(request));
  co_return state->stopped ? Outcome::failed : take_answer(*state, answer, asked_at);
}

net::Task<Outcome> look(StatePtr state) {
  kube::Request request("GET", state->collection() + "/" + state->options.name);
  const auto answer = co_await state->api(std::move(request));
  if (state->stopped) co_return Outcome::failed;
  if (answer && answer->status == 404) {
    state->seen.reset();
    co_return co_await create(state);
  }
  if (!answer || !answer->ok()) co_return outcome_of_failure(*state, answer);
  auto record = parse_lease(answer->body);
  if (!record) co_return Outcome::failed;
  state->look_at(std::move(*record));
  const auto ends = state->seen_at + std::chrono::seconds(state->seen->duration_seconds);
  if (state->holds() || state->seen->holder.empty() || net::Clock::now() >= ends) co_return co_await write(state);
  co_return Outcome::following;
}

net::Task<> compete(StatePtr state) {
  while (!state->stopped) {
    // A holder writes without looking: the version that it wrote last is what must still be there.
    Outcome outcome = Outcome::again;
    if (state->holds())
      outcome = co_await write(state);
    else
      outcome = co_await look(state);
    if (state->stopped) co_return;
    auto pause = state->options.retry;
    if (outcome == Outcome::holding) pause = state->options.renew;
    if (outcome == Outcome::following || outcome == Outcome::forbidden) state->lost();
    if (outcome == Outcome::forbidden) pause = state->options.forbidden_retry;
    if (outcome == Outcome::again) pause = std::min(pause, std::chrono::milliseconds(200));
    state->tell();
    state->timer.expires_after(pause);
    auto [ec] = co_await state->timer.async_wait(net::as_result);
    if (ec) co_return;
  }
}

net::Task<> give_back(StatePtr state) {
  if (!state->leads() || !state->holds()) co_return;
  const std::string path = state->collection() + "/" + state->options.name;
  LeaseRecord record = *state->seen;
  state->lost();
  for (int attempt = 0; attempt < 2; ++attempt) {
    record.holder.clear();
    record.duration_seconds = 1;
    kube::Request request("PATCH", path);
    request.content_type = "application/merge-patch+json";
    request.body = lease_patch(record, state->hooks.now(), false);
    request.timeout = std::chrono::seconds(2);
    auto answer = co_await state->api(std::move(request));
    if (!answer || answer->status != 409) co_return;
    // A renewal of our own was under way.
    request = kube::Request("GET", path);
    request.timeout = std::chrono::seconds(2);
    answer = co_await state->api(std::move(request));
    if (!answer || !answer->ok()) co_return;
    auto now_there = parse_lease(answer->body);
    if (!now_there || now_there->holder != state->options.identity) co_return;
    record = std::move(*now_there);
  }
}

}  // namespace

Lease::Lease(net::io_context& control, kube::Api api, LeaseOptions options, LeaseHooks hooks)
    : state_(std::make_shared<LeaseState>(control, std::move(api), std::move(options), std::move(hooks))) {}

Lease::~Lease() { stop(); }

net::Task<> Lease::run() { return compete(state_); }

bool Lease::leads() const { return !state_->stopped && state_->leads(); }

net::Task<> Lease::release() {
  stop();
  return give_back(state_);
}

void Lease::stop() {
  state_->stopped = true;
  state_->timer.cancel();
}

}  // namespace warmroute::status
