#pragma once
// What all workers share about one incarnation of a pod: counters and the last load sample.
// Writers: in_flight by workers (through InFlightGuard), the sample by the control thread only.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "model/breaker.hpp"
#include "warmroute/pod_view.hpp"

namespace warmroute::model {

using Clock = std::chrono::steady_clock;

class PodRecord;

/// Whoever lets requests wait for a free slot on a pod.
class SlotWaiters {
 public:
  /// Any thread: the pod has one request less. Does not block for long.
  virtual void slot_freed(const PodRecord& pod) noexcept = 0;

 protected:
  ~SlotWaiters() = default;
};

/// What is in flight at one pod's address, and whether somebody waits for a free slot there. A pod that goes out of
/// rotation and comes back is another incarnation, but its engine may still work on what it was given before: both
/// count in the same place.
class PodSlots {
 private:
  friend class PodRecord;
  friend class InFlightGuard;
  alignas(64) std::atomic<std::int64_t> in_flight_{0};
  std::atomic<std::uint32_t> wanted_{0};
  std::atomic<SlotWaiters*> waiters_{nullptr};
};

class PodRecord {
 public:
  /// `slots`: of an earlier incarnation at the same address; null: its own.
  PodRecord(PodId id, std::string name, std::string ns, std::string ip, std::string host = {},
            std::shared_ptr<PodSlots> slots = nullptr)
      : id_(id),
        slots_(slots ? std::move(slots) : std::make_shared<PodSlots>()),
        name_(std::move(name)),
        ns_(std::move(ns)),
        key_(ns_ + "/" + name_),
        ip_(std::move(ip)),
        host_(std::move(host)) {}
  PodRecord(const PodRecord&) = delete;
  PodRecord& operator=(const PodRecord&) = delete;

  [[nodiscard]] PodId id() const noexcept { return id_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& ns() const noexcept { return ns_; }
  [[nodiscard]] const std::string& key() const noexcept { return key_; }  ///< namespace/name
  [[nodiscard]] const std::string& ip() const noexcept { return ip_; }

  /// What TLS verifies and sends as SNI: the host name where there is one, else the address.
  [[nodiscard]] const std::string& host() const noexcept { return host_.empty() ? ip_ : host_; }

  /// In one order with wanted(): see InFlightGuard::release().
  [[nodiscard]] std::int64_t in_flight() const noexcept { return slots_->in_flight_.load(std::memory_order_seq_cst); }
  [[nodiscard]] const std::shared_ptr<PodSlots>& slots() const noexcept { return slots_; }

  [[nodiscard]] Breaker& breaker() noexcept { return breaker_; }
  [[nodiscard]] const Breaker& breaker() const noexcept { return breaker_; }

  /// Requests that wait for a slot on this pod (among others).
  [[nodiscard]] bool wanted() const noexcept { return slots_->wanted_.load(std::memory_order_seq_cst) != 0; }
  /// `waiters` outlives the record, or at least each want() that no unwant() followed, and is always the same object.
  void want(SlotWaiters& waiters) noexcept {
    slots_->waiters_.store(&waiters, std::memory_order_release);
    slots_->wanted_.fetch_add(1, std::memory_order_seq_cst);
  }
  void unwant() noexcept { slots_->wanted_.fetch_sub(1, std::memory_order_seq_cst); }

  /// True from the moment the pod stopped being routable; nothing may be recorded for it any more.
  [[nodiscard]] bool left() const noexcept { return left_.load(std::memory_order_acquire); }
  void mark_left() noexcept { left_.store(true, std::memory_order_release); }

  /// Control thread only.
  void store_sample(const LoadSample& sample, Clock::time_point taken) noexcept;
  /// Empty when there is no sample or it is older than `max_age`.
  [[nodiscard]] std::optional<LoadSample> fresh_sample(Clock::time_point now, Clock::duration max_age) const noexcept;
  /// The last sample whatever its age, for the debug page.
  [[nodiscard]] std::optional<LoadSample> last_sample() const noexcept;

 private:
  friend class InFlightGuard;
  const PodId id_;
  const std::shared_ptr<PodSlots> slots_;
  const std::string name_, ns_, key_, ip_, host_;
  std::atomic<bool> left_{false};
  Breaker breaker_;
  // A sequence lock whose fields are atomics themselves, so that the thread sanitizer understands it too.
  alignas(64) mutable std::atomic<std::uint32_t> sequence_{0};
  std::atomic<double> running_{0}, waiting_{0}, kv_usage_{0}, ttft_{0}, tpot_{0};
  std::atomic<Clock::rep> taken_{0};  ///< 0: no sample yet
};

/// Counts one request on a pod from the pick to the end, whatever happens (decision 3.9). Holds the record, not the
/// name: a pod that is re-created meanwhile has another record, and another count where its address is another.
class InFlightGuard {
 public:
  InFlightGuard() = default;
  explicit InFlightGuard(std::shared_ptr<PodRecord> pod) noexcept : pod_(std::move(pod)) {
    if (pod_) pod_->slots_->in_flight_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Counts only while the pod has fewer than `limit` requests in flight; else the guard is empty.
  static InFlightGuard take_below(const std::shared_ptr<PodRecord>& pod, std::int64_t limit) noexcept {
    InFlightGuard guard;
    auto& in_flight = pod->slots_->in_flight_;
    auto seen = in_flight.load(std::memory_order_relaxed);
    while (seen < limit) {
      if (!in_flight.compare_exchange_weak(seen, seen + 1, std::memory_order_relaxed)) continue;
      guard.pod_ = pod;
      break;
    }
    return guard;
  }
  /// Counts only when the pod still has as many requests in flight as the scheduler saw; else the guard is empty and
  /// the choice has to be made again. Makes choosing and reserving one step between workers.
  static InFlightGuard take_if_unchanged(const std::shared_ptr<PodRecord>& pod, std::int64_t seen) noexcept {
    InFlightGuard guard;
    if (pod->slots_->in_flight_.compare_exchange_strong(seen, seen + 1, std::memory_order_relaxed)) guard.pod_ = pod;
    return guard;
  }
  InFlightGuard(InFlightGuard&& other) noexcept : pod_(std::exchange(other.pod_, nullptr)) {}
  InFlightGuard& operator=(InFlightGuard&& other) noexcept {
    if (this != &other) {
      release();
      pod_ = std::exchange(other.pod_, nullptr);
    }
    return *this;
  }
  ~InFlightGuard() { release(); }

  void release() noexcept {
    if (!pod_) return;
    // First the slot, then the look for somebody who waits; who waits does it the other way round. So one of them sees
    // the other, and no slot stays free while a request waits for it.
    pod_->slots_->in_flight_.fetch_sub(1, std::memory_order_seq_cst);
    if (pod_->wanted())
      if (auto* const waiters = pod_->slots_->waiters_.load(std::memory_order_acquire)) waiters->slot_freed(*pod_);
    pod_.reset();
  }
  [[nodiscard]] const std::shared_ptr<PodRecord>& pod() const noexcept { return pod_; }

 private:
  std::shared_ptr<PodRecord> pod_;
};

}  // namespace warmroute::model
