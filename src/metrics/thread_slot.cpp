#include "metrics/thread_slot.hpp"

#include <array>
#include <mutex>

namespace warmroute::metrics::detail {
namespace {

// The mutex also orders the old owner's last write before the new owner's first.
class SlotTable {
 public:
  std::uint32_t take() noexcept {
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < owned_slots; ++i) {
      if (taken_[i]) continue;
      taken_[i] = true;
      return i;
    }
    return shared_slot;
  }
  void give_back(std::uint32_t slot) noexcept {
    const std::lock_guard lock(mutex_);
    taken_[slot] = false;
  }

 private:
  std::mutex mutex_;
  std::array<bool, owned_slots> taken_{};
};

// Never destroyed: threads may end after static destructors have run.
SlotTable& table() {
  static SlotTable& instance = *new SlotTable;
  return instance;
}

struct SlotOwner {
  std::uint32_t slot = shared_slot;
  ~SlotOwner() {
    this_slot = shared_slot;  // what other thread_local destructors still count
    if (slot != shared_slot) table().give_back(slot);
  }
};

}  // namespace

std::uint32_t take_slot() noexcept {
  thread_local SlotOwner owner;
  owner.slot = table().take();
  this_slot = owner.slot;
  return this_slot;
}

}  // namespace warmroute::metrics::detail
