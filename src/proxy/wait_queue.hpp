#pragma once
// Requests that wait because every pod they may use is at its in-flight limit: one line per ModelServer, first come
// first served, bounded in number and bytes. Whoever frees a slot wakes one of them, on whatever worker it lives.
// The lock is taken by requests that wait, and by those that end on a pod that somebody waits for; by nobody else.

#include <array>
#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "metrics/registry.hpp"
#include "model/snapshot.hpp"
#include "net/task.hpp"

namespace warmroute::proxy {

struct QueueLimits {
  std::size_t length = 256;            ///< requests per ModelServer; 0: nobody waits
  std::uint64_t bytes = 64ULL << 20U;  ///< of their bodies, per ModelServer
  std::chrono::milliseconds timeout{30000};
};

class WaitQueues final : public model::SlotWaiters {
 public:
  using Server = std::shared_ptr<const model::ServerEntry>;
  using Clock = std::chrono::steady_clock;
  enum class Refusal : std::uint8_t { none, full, bytes };

 private:
  struct Line;
  struct Waiter;

 public:
  /// A place in a line; the destructor leaves it. Belongs to one request, everything on its worker. `queues` outlives
  /// it.
  class Place {
   public:
    Place() = default;
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&&) = delete;
    ~Place() { leave(); }

    [[nodiscard]] explicit operator bool() const noexcept { return waiter_ != nullptr; }
    /// From here on a freed slot wakes this request, so: first arm(), then look for a pod. False: others are first and
    /// nobody called, so there is nothing to look for.
    [[nodiscard]] bool arm();
    /// When the first of the line looked last. What changes by time alone (a breaker that lets requests back in) is
    /// seen as of then by all of them, so that nobody gets what the first was refused a moment ago.
    [[nodiscard]] Clock::time_point as_of() const;
    /// Nothing was found: what woke this request may serve one behind it.
    void pass_on();
    /// Waits until woken, at the latest until `until`. Returns at once when woken since arm().
    net::Task<> sleep(Clock::time_point until);
    /// Ends sleep(): the client left. Only on the worker.
    void interrupt();
    /// A newer table of this server: other pods may be there.
    void move_to(Server server);
    /// A slot was found. The place is given up.
    void served();
    void leave() noexcept;

   private:
    friend class WaitQueues;
    WaitQueues* queues_ = nullptr;
    std::shared_ptr<Waiter> waiter_;
  };

  /// `registry` outlives it.
  WaitQueues(QueueLimits limits, metrics::Registry& registry);
  ~WaitQueues();
  WaitQueues(const WaitQueues&) = delete;
  WaitQueues& operator=(const WaitQueues&) = delete;

  [[nodiscard]] const QueueLimits& limits() const noexcept { return limits_; }
  /// Somebody waits for this server already, so a new request goes behind him. Without a lock while no one does.
  [[nodiscard]] bool crowded(const model::ServerEntry& server);
  /// A place at the end of the line, or why there is none (counted).
  [[nodiscard]] Place join(Server server, std::uint64_t bytes, net::io_context& io, Refusal& refusal);
  /// Counts a request that stopped waiting without a pod; `reason` is a literal.
  void count_rejected(const model::ServerEntry& server, const char* reason);
  /// Seconds until a request that comes now would be served, by the rate at which slots were given out lately.
  [[nodiscard]] int retry_after_seconds(const model::ServerEntry& server);
  /// The worker has a new table: those who wait on it look again. On that worker.
  void table_changed(net::io_context& io);

  void slot_freed(const model::PodRecord& pod) noexcept override;

 private:
  Line& line_of(const std::string& key);
  void wake(Waiter& waiter, bool chain);
  void resume(Waiter& waiter);
  void wake_next(Line& line, std::list<std::shared_ptr<Waiter>>::iterator from, bool chain);
  void remove(Waiter& waiter) noexcept;

  const QueueLimits limits_;
  metrics::Registry& registry_;
  std::mutex mutex_;  ///< all of the lines
  std::map<std::string, std::unique_ptr<Line>, std::less<>> lines_;
};

}  // namespace warmroute::proxy
