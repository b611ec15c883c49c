#include "net/deadline.hpp"

#include <ctime>

namespace warmroute::net {

Clock::time_point coarse_now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return Clock::time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

void Deadline::set(Clock::time_point at) noexcept {
  at_ = at;
  // Later than where it is filed: its slot will move it on. Only an earlier time has to be filed again at once.
  if (previous_link_ == nullptr || at < filed_) {
    unlink();
    set_.file(*this);
  }
}

void Deadline::unlink() noexcept {
  if (previous_link_ == nullptr) return;
  *previous_link_ = next_;
  if (next_ != nullptr) next_->previous_link_ = previous_link_;
  next_ = nullptr;
  previous_link_ = nullptr;
  --set_.filed_count_;
}

DeadlineSet::DeadlineSet(io_context& io) : timer_(io) { current_ = coarse_now().time_since_epoch() / grain; }
DeadlineSet::~DeadlineSet() = default;

void DeadlineSet::stop() {
  stopped_ = true;
  timer_.cancel();
}

void DeadlineSet::file(Deadline& deadline) noexcept {
  if (stopped_) return;
  if (!armed_) current_ = coarse_now().time_since_epoch() / grain;
  std::int64_t number = deadline.at_.time_since_epoch() / grain + 1;  // rounded up: never early
  if (number <= current_) number = current_ + 1;
  if (number > current_ + static_cast<std::int64_t>(slot_count) - 1)
    number = current_ + static_cast<std::int64_t>(slot_count) - 1;
  deadline.filed_ = Clock::time_point(number * grain);
  auto*& head = slots_[static_cast<std::size_t>(number) % slot_count];
  deadline.next_ = head;
  deadline.previous_link_ = &head;
  if (head != nullptr) head->previous_link_ = &deadline.next_;
  head = &deadline;
  ++filed_count_;
  if (!armed_) arm();
}

void DeadlineSet::arm() {
  armed_ = true;
  timer_.expires_after(grain);
  timer_.async_wait([this](error_code ec) {
    if (ec || stopped_) return;
    turn();
  });
}

void DeadlineSet::turn() {
  const auto now = coarse_now();
  const std::int64_t due = now.time_since_epoch() / grain;
  while (current_ < due) {
    ++current_;
    auto*& head = slots_[static_cast<std::size_t>(current_) % slot_count];
    // `late` may destroy or file any deadline, also of this slot: take them one at a time.
    while (head != nullptr) {
      Deadline& deadline = *head;
      deadline.unlink();
      if (deadline.at_ == Clock::time_point::max()) continue;
      if (deadline.at_ > now) {
        file(deadline);
        continue;
      }
      deadline.clear();
      deadline.late_(deadline.owner_);
    }
  }
  if (filed_count_ > 0) {
    arm();
  } else {
    armed_ = false;  // an idle worker has no timer
  }
}

}  // namespace warmroute::net
