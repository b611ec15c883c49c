#include "model/pod_record.hpp"

namespace warmroute::model {

void PodRecord::store_sample(const LoadSample& sample, Clock::time_point taken) noexcept {
  const auto odd = sequence_.load(std::memory_order_relaxed) + 1;
  sequence_.store(odd, std::memory_order_release);
  running_.store(sample.running, std::memory_order_release);
  waiting_.store(sample.waiting, std::memory_order_release);
  kv_usage_.store(sample.kv_usage, std::memory_order_release);
  ttft_.store(sample.ttft_seconds, std::memory_order_release);
  tpot_.store(sample.tpot_seconds, std::memory_order_release);
  taken_.store(taken.time_since_epoch().count(), std::memory_order_release);
  sequence_.store(odd + 1, std::memory_order_release);
}

std::optional<LoadSample> PodRecord::fresh_sample(Clock::time_point now, Clock::duration max_age) const noexcept {
  const Clock::time_point oldest = now - max_age;
  if (taken_.load(std::memory_order_acquire) < oldest.time_since_epoch().count()) return std::nullopt;
  return last_sample();
}

std::optional<LoadSample> PodRecord::last_sample() const noexcept {
  for (;;) {
    const auto before = sequence_.load(std::memory_order_acquire);
    LoadSample sample;
    sample.running = running_.load(std::memory_order_acquire);
    sample.waiting = waiting_.load(std::memory_order_acquire);
    sample.kv_usage = kv_usage_.load(std::memory_order_acquire);
    sample.ttft_seconds = ttft_.load(std::memory_order_acquire);
    sample.tpot_seconds = tpot_.load(std::memory_order_acquire);
    const auto taken = taken_.load(std::memory_order_acquire);
    if ((before & 1U) == 0 && sequence_.load(std::memory_order_acquire) == before) {
      if (taken == 0) return std::nullopt;
      return sample;
    }
  }
}

}  // namespace warmroute::model
