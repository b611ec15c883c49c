#include "kube/reflector.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/rng.hpp"

namespace warmroute::kube {
namespace {

using net::Clock;
using std::chrono::milliseconds;

/// A stream that lived so long says that the server works: its end is no failure.
constexpr std::chrono::seconds healthy_life{5};
/// Lists older than what is known, in a row: after so many the cluster was restored from a backup.
constexpr int stale_list_limit = 5;
/// The same beside a watch, which then knows no better.
constexpr int stale_beside_limit = 2;

/// Another outage, or another reason, is told sooner than the same again.
constexpr std::chrono::seconds news_interval{5};

double jitter() { return static_cast<double>(base::random_below(1U << 20U)) / static_cast<double>(1U << 20U); }

double seconds_of(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

struct Reflector::Impl {
  Impl(net::io_context& control, net::TaskGroup& group, std::shared_ptr<Client> api, std::shared_ptr<ObjectSink> into,
       std::shared_ptr<ReflectorCounters> counts, ReflectorSpec what, Changed on_change)
      : tasks(group),
        client(std::move(api)),
        sink(std::move(into)),
        counters(std::move(counts)),
        spec(std::move(what)),
        changed(std::move(on_change)),
        plan(spec.timing.backoff),
        pause(control.get_executor()),
        relist_timer(control.get_executor()),
        current_at(Clock::now()) {}

  net::TaskGroup& tasks;
  const std::shared_ptr<Client> client;
  const std::shared_ptr<ObjectSink> sink;
  const std::shared_ptr<ReflectorCounters> counters;
  const ReflectorSpec spec;
  Changed changed;
  WatchPlan plan;
  net::Timer pause, relist_timer;
  std::unique_ptr<WatchStream> stream;
  bool stopped = false, synced = false;
  bool distrusted = false;        ///< the open stream was closed because lists beside it are older than what is known
  std::uint64_t list_number = 0;  ///< of the list under way: a later one drops it
  Clock::time_point current_at;   ///< the state was known to be current (start: when asking began)
  Clock::time_point heard_at;     ///< the open stream's last word
  Clock::time_point told_at = Clock::time_point::min();  ///< the last log line about a failure
  bool told = false;                                     ///< of the outage under way
  std::string told_why;

  /// How a list ended.
  struct Listed {
    Result<Applied> outcome = Applied::broken;
    int status = 0;  ///< of a refusal
    WatchPlan::RetryAfter retry_after;
  };

  [[nodiscard]] std::string query(const std::string& more) const {
    std::string out = spec.path + "?" + more;
    if (!spec.label_selector.empty()) out += "&labelSelector=" + query_escaped(spec.label_selector);
    return out;
  }

  void report(std::string_view what, const std::string& why, const WatchPlan::Step& next) {
    ++counters->failures;
    const auto now = Clock::now();
    const bool news = !told || why != told_why;
    const auto least = news ? std::min<milliseconds>(spec.timing.repeat, news_interval) : spec.timing.repeat;
    if (told_at != Clock::time_point::min() && now - told_at < least) return;
    told_at = now;
    told = true;
    told_why = why;
    const std::string state = synced ? fmt::format("the last known state serves on: {} objects, {:.1f} s old",
                                                   sink->size(), seconds_of(now - current_at))
                                     : std::string("nothing is known yet");
    log::warning("Kubernetes: {} {}: {}; {}; next try in {} ms", what, spec.name, why, state, next.delay.count());
  }
  void recovered() {
    if (!std::exchange(told, false)) return;
    log::info("Kubernetes: {} is followed again: {} objects", spec.name, sink->size());
  }
  void tell(Applied applied) {
    const bool first = !std::exchange(synced, true);
    if ((first || applied == Applied::changed) && changed) changed();
  }

  static net::Task<> run(std::shared_ptr<Impl> self);
  static net::Task<> relist(std::shared_ptr<Impl> self);
  static net::Task<Listed> list(std::shared_ptr<Impl> self, bool in_pages, bool trust_older);
  static net::Task<WatchPlan::Step> list_step(std::shared_ptr<Impl> self, bool in_pages);
  static net::Task<WatchPlan::Step> watch_step(std::shared_ptr<Impl> self);
  static net::Task<WatchPlan::Step> follow(std::shared_ptr<Impl> self);
  std::optional<WatchPlan::Step> take(const WatchEvent& event);
  WatchPlan::Step stream_ended(const Error& error, Clock::time_point opened);
};

net::Task<> Reflector::Impl::run(std::shared_ptr<Impl> self) {
  WatchPlan::Step step;
  while (!self->stopped) {
    if (step.delay > milliseconds(0)) {
      self->pause.expires_after(step.delay);
      (void)co_await self->pause.async_wait(net::as_result);
      if (self->stopped) co_return;
    }
    if (step.what == WatchPlan::Do::list) {
      step = co_await list_step(self, step.in_pages);
    } else {
      step = co_await watch_step(self);
    }
  }
}

net::Task<Reflector::Impl::Listed> Reflector::Impl::list(std::shared_ptr<Impl> self, bool in_pages, bool trust_older) {
  const auto number = ++self->list_number;
  Listed listed;
  std::string next;
  self->sink->begin_list();
  for (;;) {
    std::string parameters = in_pages ? "limit=" + std::to_string(self->spec.page_limit) : std::string("limit=0");
    if (!next.empty()) parameters += "&continue=" + query_escaped(next);
    Request request("GET", self->query(parameters));
    request.timeout = self->spec.timing.answer;
    auto answer = co_await self->client->request(std::move(request));
    if (self->stopped || number != self->list_number) {
      listed.outcome = Error{Errc::cancelled, Source::internal, Retry::never, "cancelled"};
      co_return listed;
    }
    if (!answer) {
      listed.outcome = answer.error();
      co_return listed;
    }
    if (!answer->ok()) {
      listed.status = answer->status;
      listed.retry_after = answer->retry_after;
      listed.outcome = Error{Errc::io, Source::internal, Retry::never, answer->text()};
      co_return listed;
    }
    auto page = parse_list(answer->body);
    if (!page) {
      listed.outcome = page.error();
      co_return listed;
    }
    for (const auto& item : page->items) self->sink->list_item(item);
    next = page->next;
    if (!next.empty()) continue;
    listed.outcome = self->sink->end_list(page->resource_version, trust_older);
    if (*listed.outcome == Applied::broken)
      listed.outcome = Error{Errc::bad_json, Source::internal, Retry::never, "the list holds what is no object"};
    co_return listed;
  }
}

net::Task<WatchPlan::Step> Reflector::Impl::list_step(std::shared_ptr<Impl> self, bool in_pages) {
  const bool trust_older = self->plan.stale_lists() >= stale_list_limit;
  const auto asked = Clock::now();
  auto listed = co_await list(self, in_pages, trust_older);
  if (self->stopped) co_return WatchPlan::Step{};
  if (!listed.outcome) {
    const auto step = self->plan.list_failed(listed.status, listed.retry_after, jitter());
    if (step.delay > milliseconds(0)) self->report("listing", listed.outcome.error().detail, step);
    co_return step;
  }
  if (*listed.outcome == Applied::stale) {
    ++self->counters->stale;
    const auto step = self->plan.list_stale(jitter());
    self->report("listing", "the API server lags behind what is known", step);
    co_return step;
  }
  if (trust_older) log::warning("Kubernetes: {}: an older state than the known one is taken over", self->spec.name);
  ++self->counters->lists;
  self->current_at = asked;
  self->tell(*listed.outcome);
  co_return self->plan.list_done();
}

net::Task<WatchPlan::Step> Reflector::Impl::watch_step(std::shared_ptr<Impl> self) {
  const auto least = static_cast<std::uint64_t>(self->spec.timing.watch.count());
  WatchRequest request;
  request.path = self->query(
      "watch=1&allowWatchBookmarks=true&timeoutSeconds=" + std::to_string(least + base::random_below(least + 1)) +
      "&resourceVersion=" + query_escaped(self->sink->resource_version()));
  request.answer = self->spec.timing.answer;
  request.silence = self->spec.timing.silence;
  auto watch = co_await self->client->watch(std::move(request));
  if (self->stopped) co_return WatchPlan::Step{};
  if (!watch) {
    const bool silent = watch.error().code == Errc::timeout;
    const auto step = silent ? self->plan.watch_silent(jitter()) : self->plan.watch_ended(false, jitter());
    self->report("watching", watch.error().detail, step);
    co_return step;
  }
  if (!watch->stream) {
    const auto step = self->plan.watch_refused(watch->response.status, watch->response.retry_after, jitter());
    if (step.delay > milliseconds(0)) self->report("watching", watch->response.text(), step);
    co_return step;
  }
  self->stream = std::move(watch->stream);
  co_return co_await follow(self);
}

net::Task<WatchPlan::Step> Reflector::Impl::follow(std::shared_ptr<Impl> self) {
  const auto opened = Clock::now();
  self->heard_at = self->current_at = opened;
  self->distrusted = false;
  self->recovered();
  for (;;) {
    auto line = co_await self->stream->line();
    if (self->stopped) co_return WatchPlan::Step{};
    if (!line) co_return self->stream_ended(line.error(), opened);
    self->heard_at = Clock::now();
    auto event = parse_event(*line);
    std::optional<WatchPlan::Step> step;
    if (event) {
      step = self->take(*event);
    } else {
      step = self->plan.stream_distrusted(jitter());
      self->report("watching", event.error().detail, *step);
    }
    if (!step) continue;
    self->current_at = self->heard_at;
    self->stream.reset();
    co_return *step;
  }
}

WatchPlan::Step Reflector::Impl::stream_ended(const Error& error, Clock::time_point opened) {
  const auto now = Clock::now();
  current_at = ended_by_peer(error.code) ? now : heard_at;
  stream.reset();
  if (distrusted) {
    const auto step = plan.stream_distrusted(jitter());
    report("watching", "lists beside the watch are older than what is known", step);
    return step;
  }
  const bool orderly = error.code == Errc::closed, silent = error.code == Errc::timeout;
  const auto step =
      silent ? plan.watch_silent(jitter()) : plan.watch_ended(orderly && now - opened >= healthy_life, jitter());
  if (!orderly || step.delay > milliseconds(0)) {
    report("watching", silent ? "the stream was silent" : error.detail, step);
  } else if (step.what == WatchPlan::Do::list) {
    log::v(1, "Kubernetes: watching {} told only what is older than what is known", spec.name);
  } else {
    log::v(2, "Kubernetes: watching {} goes on", spec.name);
  }
  return step;
}

/// A step where the stream is of no use any more.
std::optional<WatchPlan::Step> Reflector::Impl::take(const WatchEvent& event) {
  if (event.type == EventType::error) {
    const auto status = parse_error_status(event.object);
    const auto step = plan.watch_refused(status.code, status.retry_after, jitter());
    if (step.delay > milliseconds(0)) report("watching", status.reason + " " + status.message, step);
    return step;
  }
  if (event.type == EventType::unknown) return std::nullopt;  // of a later API
  if (event.type == EventType::bookmark) {
    const auto head = parse_object_head(event.object);
    if (head && sink->bookmark(head->resource_version)) {
      plan.progress();
    } else {
      plan.old_news();
    }
    return std::nullopt;
  }
  const Applied applied = sink->event(event.type, event.object);
  if (applied == Applied::broken) {
    const auto step = plan.stream_distrusted(jitter());
    report("watching", "an event without a proper object", step);
    return step;
  }
  if (applied == Applied::stale) {
    ++counters->stale;
    plan.old_news();
    return std::nullopt;
  }
  ++counters->events;
  plan.progress();
  tell(applied);
  return std::nullopt;
}

/// Beside the watch, so that events go on while a large list is read.
net::Task<> Reflector::Impl::relist(std::shared_ptr<Impl> self) {
  int stale = 0;  // in a row
  while (!self->stopped) {
    const auto interval = self->spec.timing.relist;
    const auto spread = milliseconds(static_cast<std::int64_t>(static_cast<double>(interval.count()) * jitter() / 4));
    self->relist_timer.expires_after(interval - spread);
    (void)co_await self->relist_timer.async_wait(net::as_result);
    if (self->stopped) co_return;
    if (!self->stream) continue;  // the other coroutine is about to list, or to find out that it must
    auto listed = co_await list(self, true, false);
    if (self->stopped) co_return;
    if (!listed.outcome) {
      log::v(1, "Kubernetes: listing {} beside its watch: {}", self->spec.name, listed.outcome.error().detail);
      continue;
    }
    if (*listed.outcome == Applied::stale) {
      ++self->counters->stale;
      if (++stale < stale_beside_limit || !self->stream) continue;
      stale = 0;
      self->distrusted = true;
      self->stream->close();  // the other coroutine wakes up and lists
      continue;
    }
    stale = 0;
    ++self->counters->lists;
    if (*listed.outcome != Applied::changed) continue;
    ++self->counters->repaired;
    log::v(1, "Kubernetes: a list of {} found what its watch had not told", self->spec.name);
    self->tell(*listed.outcome);
  }
}

Reflector::Reflector(net::io_context& control, net::TaskGroup& tasks, std::shared_ptr<Client> client,
                     std::shared_ptr<ObjectSink> sink, std::shared_ptr<ReflectorCounters> counters, ReflectorSpec spec,
                     Changed changed)
    : impl_(std::make_shared<Impl>(control, tasks, std::move(client), std::move(sink), std::move(counters),
                                   std::move(spec), std::move(changed))) {}

Reflector::~Reflector() {
  impl_->stopped = true;
  impl_->changed = nullptr;
  if (impl_->stream) impl_->stream->close();
  impl_->pause.cancel();
  impl_->relist_timer.cancel();
}

void Reflector::start() {
  impl_->tasks.spawn("Kubernetes watch", Impl::run(impl_));
  if (impl_->spec.timing.relist > milliseconds(0)) impl_->tasks.spawn("Kubernetes list", Impl::relist(impl_));
}

bool Reflector::synced() const noexcept { return impl_->synced; }
bool Reflector::connected() const noexcept { return impl_->stream != nullptr; }

Clock::duration Reflector::age(Clock::time_point now) const noexcept {
  return impl_->stream ? Clock::duration::zero() : now - impl_->current_at;
}

}  // namespace warmroute::kube
