#include "proxy/wait_queue.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <cmath>
#include <utility>

#include "net/deadline.hpp"

namespace warmroute::proxy {
namespace {

constexpr std::array<double, 12> wait_bounds{0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
constexpr int retry_after_limit_seconds = 60;
constexpr std::chrono::seconds rate_window{30};

double seconds(std::chrono::steady_clock::duration length) { return std::chrono::duration<double>(length).count(); }

void want_all(const model::ServerEntry& server, model::SlotWaiters& waiters) noexcept {
  for (const auto& pod : server.pods) pod.record->want(waiters);
}
void unwant_all(const model::ServerEntry& server) noexcept {
  for (const auto& pod : server.pods) pod.record->unwant();
}

}  // namespace

struct WaitQueues::Waiter {
  Waiter(net::io_context& of, Server on) : io(of), timer(of), server(std::move(on)) {}

  net::io_context& io;
  net::Timer timer;  ///< only on its worker
  Server server;
  Line* line = nullptr;
  std::list<std::shared_ptr<Waiter>>::iterator place;
  std::uint64_t bytes = 0;
  Clock::time_point joined;
  bool woken = false;   ///< since the last arm(): it is its turn to look for a slot
  bool nudged = false;  ///< since the last arm(): the table changed, which is no turn
  bool chain = false;   ///< woken because there may be more than one slot: who takes one wakes the next
};

struct WaitQueues::Line {
  std::list<std::shared_ptr<Waiter>> waiters;
  std::uint64_t bytes = 0;
  std::array<Clock::time_point, 64> served{};  ///< a ring
  std::size_t served_count = 0;
  Clock::time_point busy_since;  ///< when the first of the present line came
  Clock::time_point first_looked;
  metrics::Gauge* waiting = nullptr;
  metrics::Histogram* waited = nullptr;
};

WaitQueues::WaitQueues(QueueLimits limits, metrics::Registry& registry) : limits_(limits), registry_(registry) {}
WaitQueues::~WaitQueues() = default;

WaitQueues::Line& WaitQueues::line_of(const std::string& key) {
  auto& line = lines_[key];
  if (!line) {
    line = std::make_unique<Line>();
    line->waiting = &registry_.gauge("warmroute_queue_waiting",
                                     "Requests that wait for a pod below its in-flight limit", {{"model_server", key}});
    line->waited =
        &registry_.histogram("warmroute_queue_wait_seconds", "Time that requests waited which got a pod in the end",
                             wait_bounds, {{"model_server", key}});
  }
  return *line;
}

bool WaitQueues::crowded(const model::ServerEntry& server) {
  // Whoever waits for the server wants every pod of it.
  for (const auto& pod : server.pods)
    if (!pod.record->wanted()) return false;
  const std::lock_guard lock(mutex_);
  const auto line = lines_.find(server.key);
  return line != lines_.end() && !line->second->waiters.empty();
}

WaitQueues::Place WaitQueues::join(Server server, std::uint64_t bytes, net::io_context& io, Refusal& refusal) {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    auto& line = line_of(server->key);
    refusal = Refusal::none;
    if (line.waiters.size() >= limits_.length) {
      refusal = Refusal::full;
    } else if (line.bytes + bytes > limits_.bytes) {
      refusal = Refusal::bytes;
    } else {
      auto waiter = std::make_shared<Waiter>(io, server);
      waiter->line = &line;
      waiter->bytes = bytes;
      waiter->joined = Clock::now();
      // Unless somebody ahead was called and has not looked yet, all of them looked in vain: a pod that none of them
      // may use, or that they have tried, may be free for this one.
      waiter->woken = std::none_of(line.waiters.begin(), line.waiters.end(), [](const auto& w) { return w->woken; });
      if (line.waiters.empty()) line.busy_since = line.first_looked = waiter->joined;
      line.waiters.push_back(waiter);
      waiter->place = std::prev(line.waiters.end());
      line.bytes += bytes;
      line.waiting->add(1);
      want_all(*server, *this);
      place.queues_ = this;
      place.waiter_ = std::move(waiter);
    }
  }
  if (refusal != Refusal::none) count_rejected(*server, refusal == Refusal::full ? "full" : "bytes");
  return place;
}

void WaitQueues::count_rejected(const model::ServerEntry& server, const char* reason) {
  registry_
      .counter("warmroute_queue_rejected_total", "Requests that did not get a pod from the waiting queue, by reason",
               {{"model_server", server.key}, {"reason", reason}})
      .inc();
}

int WaitQueues::retry_after_seconds(const model::ServerEntry& server) {
  if (limits_.length == 0) return 1;  // without a queue nobody sees how fast slots are given out
  const std::lock_guard lock(mutex_);
  const auto& line = line_of(server.key);
  const auto now = Clock::now();
  auto begin = std::max(line.busy_since, now - rate_window);
  if (line.served_count >= line.served.size())
    begin = std::max(begin, line.served[line.served_count % line.served.size()]);
  const auto kept = std::min(line.served_count, line.served.size());
  const auto lately = std::count_if(line.served.begin(), line.served.begin() + static_cast<std::ptrdiff_t>(kept),
                                    [&](Clock::time_point at) { return at >= begin; });
  // Where nothing was given out, all that is known is how long a request would have waited.
  double wait = seconds(limits_.timeout);
  if (lately > 0)
    wait = static_cast<double>(line.waiters.size() + 1) * seconds(now - begin) / static_cast<double>(lately);
  return std::clamp(static_cast<int>(std::ceil(std::min(wait, 1e6))), 1, retry_after_limit_seconds);
}

// Under the lock. The handler may find the place given up already; it holds the waiter, not the request.
void WaitQueues::wake(Waiter& waiter, bool chain) {
  waiter.woken = true;
  waiter.chain = waiter.chain || chain;
  resume(waiter);
}

void WaitQueues::resume(Waiter& waiter) {
  boost::asio::post(waiter.io, [held = *waiter.place] { held->timer.cancel(); });
}

void WaitQueues::wake_next(Line& line, std::list<std::shared_ptr<Waiter>>::iterator from, bool chain) {
  for (auto it = from; it != line.waiters.end(); ++it) {
    if ((*it)->woken) continue;
    wake(**it, chain);
    return;
  }
}

void WaitQueues::slot_freed(const model::PodRecord& pod) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    // A pod may serve several ModelServers: the first of each line looks, since only he knows whether he can use it.
    for (auto& [key, line] : lines_) {
      if (line->waiters.empty()) continue;
      auto first = std::find_if(line->waiters.begin(), line->waiters.end(), [](const auto& w) { return !w->woken; });
      const bool all_woken = first == line->waiters.end();
      if (all_woken) first = line->waiters.begin();
      const auto& pods = (*first)->server->pods;
      if (std::none_of(pods.begin(), pods.end(), [&](const auto& p) { return p.record->slots() == pod.slots(); }))
        continue;
      // Whoever comes behind those that were called already must learn that there is one more.
      if (all_woken)
        (*first)->chain = true;
      else
        wake(**first, false);
    }
  } catch (const std::exception&) {
    // Out of memory: the first in line looks again within a second.
  }
}

void WaitQueues::table_changed(net::io_context& io) {
  const std::lock_guard lock(mutex_);
  for (auto& [key, line] : lines_)
    for (const auto& waiter : line->waiters)
      if (&waiter->io == &io) {
        waiter->nudged = true;
        waiter->chain = true;  // new pods may have room for several
        resume(*waiter);
      }
}

void WaitQueues::remove(Waiter& waiter) noexcept {
  auto& line = *waiter.line;
  unwant_all(*waiter.server);
  line.bytes -= waiter.bytes;
  line.waiting->add(-1);
  line.waiters.erase(waiter.place);
}

bool WaitQueues::Place::arm() {
  const std::lock_guard lock(queues_->mutex_);
  waiter_->nudged = false;
  const bool called = std::exchange(waiter_->woken, false);
  const bool first = waiter_->place == waiter_->line->waiters.begin();
  if (first) waiter_->line->first_looked = net::coarse_now();
  return called || first;
}

WaitQueues::Clock::time_point WaitQueues::Place::as_of() const {
  const std::lock_guard lock(queues_->mutex_);
  return waiter_->line->first_looked;
}

void WaitQueues::Place::pass_on() {
  const std::lock_guard lock(queues_->mutex_);
  queues_->wake_next(*waiter_->line, std::next(waiter_->place), std::exchange(waiter_->chain, false));
}

net::Task<> WaitQueues::Place::sleep(Clock::time_point until) {
  const auto waiter = waiter_;
  {
    const std::lock_guard lock(queues_->mutex_);
    if (waiter->woken || waiter->nudged) co_return;
  }
  waiter->timer.expires_at(until);
  auto [ec] = co_await waiter->timer.async_wait(net::as_result);
  (void)ec;  // cancelled: woken, or the client left, which the caller sees
}

void WaitQueues::Place::interrupt() { waiter_->timer.cancel(); }

void WaitQueues::Place::move_to(Server server) {
  const std::lock_guard lock(queues_->mutex_);
  want_all(*server, *queues_);
  unwant_all(*waiter_->server);
  waiter_->server = std::move(server);
}

void WaitQueues::Place::served() {
  const std::lock_guard lock(queues_->mutex_);
  auto& line = *waiter_->line;
  const auto now = Clock::now();
  line.served[line.served_count++ % line.served.size()] = now;
  line.waited->observe(seconds(now - waiter_->joined));
  // A call that arrived after the last arm() was for one more slot.
  // Who is served past others that could not be leaves room to those behind him, who may be able as well.
  const bool more = waiter_->woken || waiter_->chain || waiter_->place != line.waiters.begin();
  if (more) queues_->wake_next(line, std::next(waiter_->place), waiter_->chain);
  queues_->remove(*waiter_);
  waiter_.reset();
}

void WaitQueues::Place::leave() noexcept {
  if (!waiter_) return;
  const std::lock_guard lock(queues_->mutex_);
  if (waiter_->woken) {
    try {
      queues_->wake_next(*waiter_->line, std::next(waiter_->place), waiter_->chain);
    } catch (const std::exception&) {
      // Out of memory: the first in line looks again within a second.
    }
  }
  queues_->remove(*waiter_);
  waiter_.reset();
}

}  // namespace warmroute::proxy
