#include "kube/watch_plan.hpp"

#include <algorithm>
#include <utility>

namespace warmroute::kube {
namespace {

constexpr int status_unauthorized = 401, status_gone = 410;
constexpr int doublings = 16;
/// Refusals of a watch in a row after which a list says more: a cluster restored from a backup refuses for ever to go
/// on from a version that it has not reached again.
constexpr int refusals_before_list = 5;
/// The same cluster may also let the watch wait in silence, or tell what is older than the version asked for.
constexpr int vain_watches_before_list = 2;
/// A refusal that time may not heal (a missing right or resource definition) is asked again at leisure.
constexpr bool is_lasting(int status) { return status == 403 || status == 404 || status == 405; }
constexpr std::chrono::seconds longest_wish{60};

}  // namespace

std::chrono::milliseconds WatchPlan::pause(double jitter, RetryAfter retry_after) {
  const int shift = std::min(failures_, doublings);
  ++failures_;
  const auto due = std::min<std::chrono::milliseconds>(limits_.first * (std::int64_t{1} << shift), limits_.most);
  // The server's wish counts, within reason and never for less than our own pause; all routers got the same, so it is
  // spread upwards. Compared in seconds: any number of them may have been asked for.
  if (retry_after) {
    const auto wish =
        std::max<std::chrono::milliseconds>(std::clamp(*retry_after, std::chrono::seconds(0), longest_wish), due);
    return wish + std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(wish.count()) * jitter / 2));
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(due.count()) * (0.5 + jitter / 2)));
}

WatchPlan::Step WatchPlan::list_done() {
  in_pages_ = true;
  stale_lists_ = vain_ = 0;
  old_news_ = false;
  return {Do::watch, std::chrono::milliseconds(0), true};
}

WatchPlan::Step WatchPlan::list_failed(int status, RetryAfter retry_after, double jitter) {
  if (status == status_gone && in_pages_) {
    in_pages_ = false;
    return {Do::list, std::chrono::milliseconds(0), false};
  }
  auto delay = pause(jitter, retry_after);
  if (is_lasting(status)) delay = std::max(delay, limits_.most / 2);
  return {Do::list, delay, in_pages_};
}

WatchPlan::Step WatchPlan::list_stale(double jitter) {
  ++stale_lists_;
  return {Do::list, pause(jitter), in_pages_};
}

WatchPlan::Step WatchPlan::watch_refused(int status, RetryAfter retry_after, double jitter) {
  const bool first = failures_ == 0;
  auto delay = pause(jitter, retry_after);
  if (status == status_gone) return {Do::list, first ? std::chrono::milliseconds(0) : delay, in_pages_};
  if (status == status_unauthorized && first) delay = std::chrono::milliseconds(0);  // the credentials were read again
  if (is_lasting(status)) delay = std::max(delay, limits_.most / 2);
  return {failures_ > refusals_before_list ? Do::list : Do::watch, delay, in_pages_};
}

WatchPlan::Step WatchPlan::watch_ended(bool healthy, double jitter) {
  if (healthy) failures_ = 0;
  const auto delay = pause(jitter);
  const Do next = std::exchange(old_news_, false) ? after_vain_watch() : Do::watch;
  return {next, healthy ? std::chrono::milliseconds(0) : delay, in_pages_};
}

WatchPlan::Step WatchPlan::watch_silent(double jitter) {
  old_news_ = false;
  const auto delay = pause(jitter);
  return {after_vain_watch(), delay, in_pages_};
}

WatchPlan::Do WatchPlan::after_vain_watch() noexcept {
  if (++vain_ < vain_watches_before_list) return Do::watch;
  vain_ = 0;
  return Do::list;
}

WatchPlan::Step WatchPlan::stream_distrusted(double jitter) {
  const bool first = failures_ == 0;
  const auto delay = pause(jitter);
  return {Do::list, first ? std::chrono::milliseconds(0) : delay, in_pages_};
}

}  // namespace warmroute::kube
