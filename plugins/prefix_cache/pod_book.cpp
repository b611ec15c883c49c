#include "prefix_cache/pod_book.hpp"

#include <algorithm>
#include <cmath>

#include "prefix/index.hpp"

namespace warmroute::plugins {
namespace {

constexpr double smoothing = 1.0 / 16;
constexpr double worth_telling = 0.02;  ///< relative change of a capacity

}  // namespace

PodBook::Entry* PodBook::find(PodId pod) const noexcept {
  if (pod.slot >= by_slot_.size() || !by_slot_[pod.slot]) return nullptr;
  Entry* const entry = by_slot_[pod.slot].get();
  return entry->pod == pod ? entry : nullptr;
}

void PodBook::join(PodId pod) {
  auto entry = std::make_unique<Entry>();
  entry->pod = pod;
  const std::unique_lock lock(mutex_);
  if (by_slot_.size() <= pod.slot) by_slot_.resize(std::size_t{pod.slot} + 1);
  by_slot_[pod.slot] = std::move(entry);
}

void PodBook::leave(PodId pod) {
  const std::unique_lock lock(mutex_);
  if (find(pod) != nullptr) by_slot_[pod.slot].reset();
}

void PodBook::set_kv_tokens(PodId pod, std::int64_t tokens) {
  const std::shared_lock lock(mutex_);
  Entry* const entry = find(pod);
  if (entry == nullptr) return;
  const std::lock_guard entry_lock(entry->mutex);
  entry->kv_tokens = tokens;
}

std::optional<std::size_t> PodBook::capacity(PodId pod, const Sizing& sizing) {
  const std::shared_lock lock(mutex_);
  Entry* const entry = find(pod);
  if (entry == nullptr || sizing.bytes_per_token <= 0) return std::nullopt;
  const std::lock_guard entry_lock(entry->mutex);
  if (entry->kv_tokens <= 0) return std::nullopt;
  double& ratio = entry->bytes_per_token;
  ratio += ratio == 0 ? sizing.bytes_per_token : (sizing.bytes_per_token - ratio) * smoothing;
  const double blocks = static_cast<double>(entry->kv_tokens) * ratio / static_cast<double>(sizing.block_bytes);
  const double limited = std::clamp(blocks, 1.0, static_cast<double>(prefix::Index::max_capacity));
  const auto told = static_cast<double>(entry->capacity);
  if (std::abs(limited - told) <= told * worth_telling) return std::nullopt;
  entry->capacity = static_cast<std::size_t>(limited);
  return entry->capacity;
}

bool PodBook::report(PodId pod, std::int64_t cached_tokens, bool believed) {
  const std::shared_lock lock(mutex_);
  Entry* const entry = find(pod);
  if (entry == nullptr || cached_tokens < 0) return false;
  const std::lock_guard entry_lock(entry->mutex);
  if (cached_tokens > 0) {
    entry->strikes = 0;
    return false;
  }
  if (!believed) return false;
  ++entry->strikes;
  return entry->strikes >= strikes_until_doubt;
}

bool PodBook::trusted(PodId pod) {
  const std::shared_lock lock(mutex_);
  Entry* const entry = find(pod);
  if (entry == nullptr) return true;
  const std::lock_guard entry_lock(entry->mutex);
  return entry->strikes < strikes_until_doubt || ++entry->untrusted % trial_every == 0;
}

void PodBook::set_doubt(PodId pod, Doubt doubt) {
  const std::shared_lock lock(mutex_);
  Entry* const entry = find(pod);
  if (entry == nullptr) return;
  const std::lock_guard entry_lock(entry->mutex);
  entry->doubt = doubt;
}

PodBook::Doubt PodBook::doubt(PodId pod) const {
  const std::shared_lock lock(mutex_);
  Entry* const entry = find(pod);
  if (entry == nullptr) return {};
  const std::lock_guard entry_lock(entry->mutex);
  return entry->doubt;
}

}  // namespace warmroute::plugins
