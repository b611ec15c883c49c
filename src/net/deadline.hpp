#pragma once
// Deadlines without a timer per operation: storing a time is all that an operation pays. One timer per worker looks
// at a wheel of slots; a deadline that was moved later is put into a later slot when its old one comes up.
// Single-threaded: everything here belongs to one worker.

#include <array>
#include <cstdint>

#include "net/task.hpp"

namespace warmroute::net {

/// CLOCK_MONOTONIC_COARSE (about 4 ms): cheap enough for every event.
[[nodiscard]] Clock::time_point coarse_now() noexcept;

class DeadlineSet;

/// A point in time after which `late` is called, once, unless it was moved or cleared before. Grain: 100 ms late at
/// most. Destruction clears.
class Deadline {
 public:
  using Late = void (*)(void* owner);
  Deadline(DeadlineSet& set, Late late, void* owner) noexcept : set_(set), late_(late), owner_(owner) {}
  ~Deadline() { unlink(); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  void set(Clock::time_point at) noexcept;
  /// From now (coarse clock).
  void set_after(std::chrono::milliseconds delay) noexcept { set(coarse_now() + delay); }
  void clear() noexcept { at_ = Clock::time_point::max(); }
  [[nodiscard]] Clock::time_point at() const noexcept { return at_; }

 private:
  friend class DeadlineSet;
  void unlink() noexcept;

  DeadlineSet& set_;
  Late late_;
  void* owner_;
  Clock::time_point at_ = Clock::time_point::max();
  Clock::time_point filed_ = Clock::time_point::max();  ///< the time whose slot it stands in
  Deadline* next_ = nullptr;
  Deadline** previous_link_ = nullptr;  ///< null: not in the wheel
};

class DeadlineSet {
 public:
  explicit DeadlineSet(io_context& io);
  ~DeadlineSet();
  /// Ends the timer so that the io_context can run out of work.
  void stop();

 private:
  friend class Deadline;
  static constexpr std::chrono::milliseconds grain{100};
  static constexpr std::size_t slot_count = 512;  // 51.2 s a turn; later ones are filed again each turn

  void file(Deadline& deadline) noexcept;
  void arm();
  void turn();

  Timer timer_;
  std::array<Deadline*, slot_count> slots_{};
  std::int64_t current_ = 0;  ///< number of the last slot looked at
  std::size_t filed_count_ = 0;
  bool armed_ = false, stopped_ = false;
};

}  // namespace warmroute::net
