#pragma once
// One request at the breaker of one pod: entered with the pick, settled exactly once by what became of it.

#include <memory>
#include <optional>
#include <utility>

#include "base/rng.hpp"
#include "model/pod_record.hpp"
#include "net/deadline.hpp"
#include "proxy/context.hpp"

namespace warmroute::proxy {

/// The pod it was entered for stays in its ServerEntry until it is settled. Times are coarse: breakers count hundredths
/// of a second, and the common case is a closed one.
class BreakerPass {
 public:
  /// Nothing to settle: breakers are off.
  BreakerPass() = default;
  /// Empty: the pod's breaker takes no further request now. `forced`: it is sent although every breaker is open.
  static std::optional<BreakerPass> enter(Shared& shared, const std::shared_ptr<model::PodRecord>& pod, bool forced) {
    BreakerPass pass;
    if (!shared.settings.breaker.enabled()) return pass;
    std::optional<model::Breaker::State> changed;
    const auto ticket = pod->breaker().enter(shared.settings.breaker, net::coarse_now(), forced, changed);
    if (!ticket) return std::nullopt;
    pass.shared_ = &shared;
    pass.pod_ = &pod;
    pass.ticket_ = *ticket;
    pass.report(changed);
    return pass;
  }
  BreakerPass(BreakerPass&& other) noexcept
      : shared_(other.shared_), pod_(std::exchange(other.pod_, nullptr)), ticket_(other.ticket_) {}
  BreakerPass& operator=(BreakerPass&& other) noexcept {
    if (this != &other) {
      leave();
      shared_ = other.shared_;
      pod_ = std::exchange(other.pod_, nullptr);
      ticket_ = other.ticket_;
    }
    return *this;
  }
  ~BreakerPass() { leave(); }

  void head_good() {
    if (pod_ != nullptr && !breaker().closed()) report(breaker().head_good(policy(), net::coarse_now(), ticket_));
  }
  void complete() {
    if (pod_ == nullptr) return;
    report(breaker().complete(policy(), net::coarse_now(), ticket_));
    leave();
  }
  void failed() {
    if (pod_ == nullptr) return;
    report(breaker().failed(policy(), net::coarse_now(), base::random64(), ticket_));
    leave();
  }
  /// Neither good nor bad.
  void leave() noexcept {
    if (pod_ == nullptr) return;
    breaker().leave(ticket_);
    pod_ = nullptr;
  }

 private:
  [[nodiscard]] model::Breaker& breaker() const noexcept { return (*pod_)->breaker(); }
  [[nodiscard]] const model::BreakerPolicy& policy() const noexcept { return shared_->settings.breaker; }
  void report(std::optional<model::Breaker::State> changed) const {
    if (changed && shared_->breaker_changed) shared_->breaker_changed(*pod_, *changed);
  }

  Shared* shared_ = nullptr;
  const std::shared_ptr<model::PodRecord>* pod_ = nullptr;
  model::Breaker::Ticket ticket_;
};

}  // namespace warmroute::proxy
