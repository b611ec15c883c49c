#include "prefix_cache/snapshot_keeper.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "prefix_cache/snapshot_file.hpp"

namespace warmroute::plugins {
namespace {

std::int64_t unix_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

SnapshotKeeper::SnapshotKeeper(const PrefixCacheSettings& settings, Host& host) : settings_(settings), host_(host) {
  read();
}

void SnapshotKeeper::read() {
  const std::string ignored = "prefix-cache: snapshot " + settings_.snapshot + " is ignored: ";
  const auto file = read_whole_file(settings_.snapshot);
  if (!file) return host_.warning(ignored + file.error().detail);
  if (!file->exists)
    return host_.info("prefix-cache: no snapshot at " + settings_.snapshot + "; the record starts empty");
  auto snapshot = prefix::decode_snapshot(file->bytes);
  if (!snapshot) return host_.warning(ignored + snapshot.error().detail);
  if (snapshot->block_bytes != settings_.block_bytes || snapshot->tools_hashed != settings_.include_tools)
    return host_.warning(ignored + "it was made with another blockSizeToHash or includeTools");
  seed_ = snapshot->seed;
  written_at_ = snapshot->written_at;
  read_models_ = std::move(snapshot->models);
  std::size_t entries = 0;
  for (auto& pod : snapshot->pods) {
    entries += pod.blocks.size();
    waiting_.insert_or_assign(std::move(pod.incarnation), std::move(pod.blocks));
  }
  host_.info("prefix-cache: snapshot " + settings_.snapshot + " has " + std::to_string(entries) + " entries of " +
             std::to_string(waiting_.size()) + " pods");
}

double SnapshotKeeper::age_seconds() const {
  const auto written = written_at_.load(std::memory_order_relaxed);
  return written == 0 ? 0 : static_cast<double>(std::max<std::int64_t>(unix_now() - written, 0));
}

std::size_t SnapshotKeeper::pod_known(PodId pod, const std::string& incarnation, prefix::Index& index,
                                      ModelNames& models) {
  if (incarnation.empty()) return 0;
  const std::lock_guard lock(mutex_);
  pods_.insert_or_assign(pod, incarnation);
  auto found = waiting_.extract(incarnation);
  if (found.empty()) return 0;
  std::vector<std::optional<prefix::ModelNumber>> numbers(read_models_.size());
  for (auto& [hash, model] : found.mapped()) {
    auto& number = numbers[model];
    if (!number) number = models.number(read_models_[model]);
    model = *number;
  }
  return index.restore(pod, found.mapped());
}

void SnapshotKeeper::pod_left(PodId pod) {
  const std::lock_guard lock(mutex_);
  pods_.erase(pod);
}

prefix::Snapshot SnapshotKeeper::collect(const prefix::Index& index, const ModelNames& models,
                                         std::uint64_t seed) const {
  prefix::Snapshot snapshot;
  snapshot.block_bytes = static_cast<std::uint32_t>(settings_.block_bytes);
  snapshot.tools_hashed = settings_.include_tools;
  snapshot.seed = seed;
  snapshot.written_at = unix_now();
  std::map<PodId, std::string> pods;
  {
    const std::lock_guard lock(mutex_);
    pods = pods_;
  }
  for (auto& [id, incarnation] : pods) {
    prefix::Snapshot::Pod pod;
    pod.incarnation = std::move(incarnation);
    index.copy(id, pod.blocks);
    if (!pod.blocks.empty()) snapshot.pods.push_back(std::move(pod));
  }
  // After the entries: a model is known before an entry carries its number.
  for (std::size_t i = 0; i < models.count(); ++i)
    snapshot.models.emplace_back(models.name(static_cast<prefix::ModelNumber>(i)));
  return snapshot;
}

void SnapshotKeeper::write(const prefix::Index& index, const ModelNames& models, std::uint64_t seed) try {
  {
    const std::lock_guard lock(mutex_);
    waiting_.clear();
  }
  const auto snapshot = collect(index, models, seed);
  const auto done = write_whole_file(settings_.snapshot, prefix::encode_snapshot(snapshot));
  if (done) written_at_.store(snapshot.written_at, std::memory_order_relaxed);
  if (!done && !failing_) host_.warning("prefix-cache: no snapshot is written: " + done.error().detail);
  if (done && failing_) host_.info("prefix-cache: snapshots are written again");
  failing_ = !done;
} catch (const std::exception& e) {
  host_.warning(std::string("prefix-cache: no snapshot is written: ") + e.what());
}

}  // namespace warmroute::plugins
