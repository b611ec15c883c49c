#include "scrape/poller.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/log.hpp"
#include "base/rng.hpp"
#include "net/fetch.hpp"
#include "net/task_group.hpp"
#include "scrape/engine_metrics.hpp"
#include "scrape/exchange_gate.hpp"
#include "scrape/models_list.hpp"

namespace warmroute::scrape {
namespace {

using net::Clock;
using std::chrono::milliseconds;

constexpr int failures_until_unreachable = 3;

/// One loop's connection and its only timer.
struct Lane {
  explicit Lane(net::io_context& io) : timer(io.get_executor()), connection(io) {}
  net::Timer timer;
  net::FetchConnection connection;
  void cancel() {
    timer.cancel();
    connection.cancel();
  }
};

/// Shared by the poller's map and the pod's loops, which see `removed` when they wake up.
struct PolledPod {
  PolledPod(net::io_context& io, model::ScrapeTarget polled) : target(std::move(polled)), metrics(io), health(io) {}

  const model::ScrapeTarget target;
  Lane metrics, health;
  bool removed = false;

  SampleBuilder samples;
  double process_start = 0;
  std::optional<std::int64_t> kv_tokens;  ///< as last told
  bool scrape_fails = false;              ///< logged when it changes, not at every scrape
  const char* metrics_path = "/metrics";
  Clock::time_point models_due{};

  int failures = 0;  ///< of connects and probes since the last success
  bool reachable = true;

  [[nodiscard]] PodId id() const { return target.record->id(); }
  void remove() {
    removed = true;
    metrics.cancel();
    health.cancel();
  }
};
using PodPtr = std::shared_ptr<PolledPod>;

bool same_endpoint(const model::ScrapeTarget& a, const model::ScrapeTarget& b) {
  return a.engine == b.engine && a.port == b.port && a.https == b.https && a.is_static == b.is_static;
}

/// Keeps the pace of `interval` from the first time on; what was missed is not made up for.
Clock::time_point next_due(Clock::time_point due, milliseconds interval) {
  return std::max(due + interval, Clock::now());
}

/// Pods that appeared together shall not be asked together for ever.
milliseconds random_part(milliseconds interval) {
  const auto whole = std::max<milliseconds::rep>(interval.count(), 1);
  return milliseconds(static_cast<milliseconds::rep>(base::random_below(static_cast<std::uint64_t>(whole))) + 1);
}

}  // namespace

struct Poller::Impl {
  Impl(net::io_context& control, PollerOptions polling, const net::ClientTls* client_tls, PollerHooks observers)
      : io(control),
        options(polling),
        tls(client_tls),
        hooks(std::move(observers)),
        gate(std::max<std::size_t>(polling.concurrent_exchanges, 1)),
        group(control) {}

  net::io_context& io;
  const PollerOptions options;
  const net::ClientTls* const tls;
  const PollerHooks hooks;
  ExchangeGate gate;
  std::map<PodId, PodPtr> pods;
  bool has_targets = false;
  std::set<PodId> first_round;  ///< of the first list, not yet scraped
  net::TaskGroup group;

  static net::Task<> scrape_loop(std::shared_ptr<Impl> self, PodPtr pod);
  static net::Task<> health_loop(std::shared_ptr<Impl> self, PodPtr pod);
  static net::Task<Result<net::FetchResponse>> fetch(Impl& self, PolledPod& pod, Lane& lane, const char* path);
  static net::Task<Result<net::FetchResponse>> fetch_metrics(Impl& self, PolledPod& pod);
  static net::Task<> scrape_metrics(Impl& self, PolledPod& pod);
  static net::Task<> refresh_models(Impl& self, PolledPod& pod);
  static void start(const std::shared_ptr<Impl>& self, const PodPtr& pod);
  void take_metrics(PolledPod& pod, const Result<net::FetchResponse>& response);
  void finish_scrape(PolledPod& pod, const std::string& problem);
  void count_failure(PolledPod& pod, std::string_view why);
  void count_success(PolledPod& pod);
  void stop();
};

net::Task<Result<net::FetchResponse>> Poller::Impl::fetch(Impl& self, PolledPod& pod, Lane& lane, const char* path) {
  if (pod.target.https && self.tls == nullptr)
    co_return Error{Errc::tls, Source::internal, Retry::never, "no TLS context for https"};
  const auto permit = co_await self.gate.enter(lane.timer);
  if (!permit || pod.removed) co_return Error{Errc::cancelled, Source::internal, Retry::never, "cancelled"};
  net::FetchRequest request;
  request.ip = pod.target.record->ip();
  request.host = pod.target.record->host();
  request.port = pod.target.port;
  request.target = path;
  request.tls = pod.target.https ? self.tls : nullptr;
  request.timeout = self.options.timeout;
  request.body_limit_bytes = self.options.body_limit_bytes;
  co_return co_await lane.connection.get(std::move(request));
}

/// Engines that mount their metrics as a sub-application redirect to the path with a slash; it is remembered.
net::Task<Result<net::FetchResponse>> Poller::Impl::fetch_metrics(Impl& self, PolledPod& pod) {
  auto response = co_await fetch(self, pod, pod.metrics, pod.metrics_path);
  const bool redirected = response && response->status / 100 == 3;
  if (!redirected || pod.removed || std::string_view(pod.metrics_path) != "/metrics") co_return response;
  auto second = co_await fetch(self, pod, pod.metrics, "/metrics/");
  if (second && second->status == 200) pod.metrics_path = "/metrics/";
  co_return second;
}

net::Task<> Poller::Impl::scrape_metrics(Impl& self, PolledPod& pod) {
  const auto response = co_await fetch_metrics(self, pod);
  if (pod.removed) co_return;
  self.take_metrics(pod, response);
  // A pod that does not answer at all would only cost a second time-out.
  if (response && !pod.removed && Clock::now() >= pod.models_due) co_await refresh_models(self, pod);
}

void Poller::Impl::take_metrics(PolledPod& pod, const Result<net::FetchResponse>& response) {
  const auto taken = Clock::now();
  if (!response) return finish_scrape(pod, response.error().detail);
  if (response->status != 200) return finish_scrape(pod, "status " + std::to_string(response->status));
  const auto metrics = parse_engine_metrics(response->body, pod.target.engine);
  if (metrics.process_start && *metrics.process_start != pod.process_start) {
    pod.process_start = *metrics.process_start;
    // First: a restarted engine is a new incarnation, and this sample is then not the old one's.
    if (hooks.process_start) hooks.process_start(pod.id(), pod.process_start);
    if (pod.removed) return;
  }
  if (const auto tokens = metrics.kv_tokens.value_or(0); pod.kv_tokens != tokens) {
    pod.kv_tokens = tokens;
    if (hooks.kv_tokens) hooks.kv_tokens(pod.id(), tokens);
    if (pod.removed) return;
  }
  const auto sample = pod.samples.next(metrics);
  if (!sample) return finish_scrape(pod, "running and waiting requests are not among the metrics");
  pod.target.record->store_sample(*sample, taken);
  finish_scrape(pod, "");
}

/// \param problem empty: the scrape gave a sample.
void Poller::Impl::finish_scrape(PolledPod& pod, const std::string& problem) {
  const bool ok = problem.empty();
  if (pod.scrape_fails == ok) {
    pod.scrape_fails = !ok;
    if (ok)
      log::info("metrics of pod {} are back", pod.target.record->key());
    else
      log::warning("no metrics of pod {} ({} port {}): {}; its load counts as unknown", pod.target.record->key(),
                   name(pod.target.engine), pod.target.port, problem);
  }
  if (hooks.scraped) hooks.scraped(*pod.target.record, ok);
}

net::Task<> Poller::Impl::refresh_models(Impl& self, PolledPod& pod) {
  const auto response = co_await fetch(self, pod, pod.metrics, "/v1/models");
  if (pod.removed) co_return;
  // After a failure the old list stays, and the next scrape tries again.
  if (!response || response->status != 200) co_return;
  auto models = parse_models_list(response->body);
  if (!models) co_return;
  pod.models_due = Clock::now() + self.options.models_interval;
  if (self.hooks.models) self.hooks.models(pod.id(), std::move(*models));
}

net::Task<> Poller::Impl::scrape_loop(std::shared_ptr<Impl> self, PodPtr pod) {
  // The first wait is over at once; it keeps the loop from calling hooks inside set_targets.
  auto due = Clock::now();
  bool first = true;
  while (!pod->removed) {
    pod->metrics.timer.expires_at(due);
    (void)co_await pod->metrics.timer.async_wait(net::as_result);  // `removed` says whether it was cancelled
    if (pod->removed) break;
    co_await scrape_metrics(*self, *pod);
    if (pod->removed) break;
    if (self->first_round.erase(pod->id()) != 0 && self->first_round.empty() && self->hooks.first_round_done)
      self->hooks.first_round_done();
    due = first ? Clock::now() + random_part(self->options.interval) : next_due(due, self->options.interval);
    first = false;
  }
}

net::Task<> Poller::Impl::health_loop(std::shared_ptr<Impl> self, PodPtr pod) {
  auto due = Clock::now() + random_part(self->options.health_interval);
  while (!pod->removed) {
    pod->health.timer.expires_at(due);
    (void)co_await pod->health.timer.async_wait(net::as_result);  // `removed` says whether it was cancelled
    if (pod->removed) break;
    const auto response = co_await fetch(*self, *pod, pod->health, "/health");
    if (pod->removed) break;
    // Whatever answers without a server error is alive: not every engine has this path, or shows it to everyone.
    if (response && response->status < 500)
      self->count_success(*pod);
    else
      self->count_failure(*pod, response ? "status " + std::to_string(response->status) : response.error().detail);
    due = next_due(due, self->options.health_interval);
  }
}

void Poller::Impl::count_failure(PolledPod& pod, std::string_view why) {
  if (!pod.reachable || ++pod.failures < failures_until_unreachable) return;
  pod.reachable = false;
  log::warning("pod {} leaves rotation after {} failures, the last: {}", pod.target.record->key(), pod.failures, why);
  if (hooks.reachable) hooks.reachable(pod.id(), false);
}

void Poller::Impl::count_success(PolledPod& pod) {
  pod.failures = 0;
  if (std::exchange(pod.reachable, true)) return;
  log::info("pod {} is back in rotation", pod.target.record->key());
  if (hooks.reachable) hooks.reachable(pod.id(), true);
}

void Poller::Impl::start(const std::shared_ptr<Impl>& self, const PodPtr& pod) {
  self->pods[pod->id()] = pod;
  (void)self->group.spawn("scrape", scrape_loop(self, pod));  // refused only after stop()
  if (pod->target.is_static) (void)self->group.spawn("health probe", health_loop(self, pod));
}

void Poller::Impl::stop() {
  group.close();
  gate.close();
  for (auto& [id, pod] : std::exchange(pods, {})) pod->remove();
}

namespace {

/// Keeps the task group alive until the last loop has reported its end to it.
template <class Impl>
struct Farewell {
  std::shared_ptr<Impl> impl;
  void operator()() {
    if (impl->group.running() > 0) boost::asio::post(impl->io.get_executor(), Farewell{impl});
  }
};

}  // namespace

Poller::Poller(net::io_context& control, PollerOptions options, const net::ClientTls* tls, PollerHooks hooks)
    : impl_(std::make_shared<Impl>(control, options, tls, std::move(hooks))) {}

Poller::~Poller() {
  impl_->stop();
  if (impl_->group.running() > 0) boost::asio::post(impl_->io.get_executor(), Farewell<Impl>{impl_});
}

void Poller::set_targets(const std::vector<model::ScrapeTarget>& targets) {
  auto& pods = impl_->pods;
  std::set<PodId> wanted;
  for (const auto& target : targets) {
    const auto id = target.record->id();
    wanted.insert(id);
    const auto it = pods.find(id);
    if (it != pods.end() && same_endpoint(it->second->target, target)) continue;
    auto pod = std::make_shared<PolledPod>(impl_->io, target);
    if (it != pods.end()) {
      pod->failures = it->second->failures;
      pod->reachable = it->second->reachable;
      it->second->remove();
    }
    Impl::start(impl_, pod);
  }
  for (auto it = pods.begin(); it != pods.end();) {
    if (wanted.contains(it->first)) {
      ++it;
      continue;
    }
    it->second->remove();
    it = pods.erase(it);
  }
  if (!std::exchange(impl_->has_targets, true))
    impl_->first_round = wanted;
  else
    std::erase_if(impl_->first_round, [&](PodId id) { return !wanted.contains(id); });
}

bool Poller::first_round_done() const noexcept { return impl_->has_targets && impl_->first_round.empty(); }

void Poller::connect_failed(PodId id) {
  const auto it = impl_->pods.find(id);
  if (it == impl_->pods.end() || !it->second->target.is_static) return;
  const PodPtr pod = it->second;  // the hook may call set_targets
  impl_->count_failure(*pod, "connect failed");
}

}  // namespace warmroute::scrape
