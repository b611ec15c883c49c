#include "kube/watch_plan.hpp"

#include <catch2/catch.hpp>

namespace warmroute::kube {
namespace {

using std::chrono::milliseconds;
using Do = WatchPlan::Do;
constexpr auto none = std::nullopt;
constexpr double all = 0.999999;

void check(const WatchPlan::Step& step, Do what, milliseconds least, milliseconds most) {
  CHECK(step.what == what);
  CHECK(step.delay >= least);
  CHECK(step.delay <= most);
}

}  // namespace

TEST_CASE("watch plan: pauses double up to the limit, spread between half and all") {
  WatchPlan plan({milliseconds(100), milliseconds(1000)});
  for (const int due : {100, 200, 400, 800, 1000, 1000}) {
    WatchPlan half = plan;
    CHECK(half.watch_ended(false, 0).delay == milliseconds(due / 2));
    check(plan.watch_ended(false, all), Do::watch, milliseconds(due - 1), milliseconds(due));
  }
  plan.progress();
  CHECK(plan.watch_ended(false, 0).delay == milliseconds(50));
  for (int i = 0; i < 100; ++i) CHECK(plan.watch_ended(false, all).delay <= milliseconds(1000));
}

TEST_CASE("watch plan: a stream that lived goes on at once") {
  WatchPlan plan;
  (void)plan.watch_ended(false, 0);
  check(plan.watch_ended(true, all), Do::watch, milliseconds(0), milliseconds(0));
}

TEST_CASE("watch plan: only who was heard to end a stream was there until then") {
  CHECK(ended_by_peer(Errc::closed));
  CHECK(ended_by_peer(Errc::reset));
  for (const auto end : {Errc::io, Errc::timeout, Errc::cancelled, Errc::tls, Errc::bad_framing, Errc::too_large})
    CHECK_FALSE(ended_by_peer(end));
}

TEST_CASE("watch plan: 410 lists at once, but not in a circle") {
  WatchPlan plan({milliseconds(100), milliseconds(1000)});
  check(plan.watch_refused(410, none, 0), Do::list, milliseconds(0), milliseconds(0));
  check(plan.list_done(), Do::watch, milliseconds(0), milliseconds(0));
  check(plan.watch_refused(410, none, 0), Do::list, milliseconds(100), milliseconds(200));
  (void)plan.list_done();
  check(plan.watch_refused(410, none, 0), Do::list, milliseconds(200), milliseconds(400));
}

TEST_CASE("watch plan: an expired page asks for the whole list, once") {
  WatchPlan plan;
  const auto again = plan.list_failed(410, none, 0);
  check(again, Do::list, milliseconds(0), milliseconds(0));
  CHECK_FALSE(again.in_pages);
  CHECK(plan.list_failed(410, none, 0).delay > milliseconds(0));
  (void)plan.list_done();
  CHECK(plan.list_failed(500, none, 0).in_pages);
}

TEST_CASE("watch plan: the server's wish is waited out, within reason") {
  WatchPlan plan;
  check(plan.watch_refused(429, std::chrono::seconds(7), 0), Do::watch, milliseconds(7000), milliseconds(7000));
  check(plan.list_failed(503, std::chrono::seconds(7), all), Do::list, milliseconds(10'000), milliseconds(10'500));
  for (const std::chrono::seconds wish : {std::chrono::seconds(32'400), std::chrono::seconds::max()})
    check(plan.watch_refused(429, wish, 0), Do::watch, milliseconds(60'000), milliseconds(60'000));
}

TEST_CASE("watch plan: a wish for no pause, or for less than our own, does not shorten it") {
  WatchPlan plan({milliseconds(1600), milliseconds(3200)});
  check(plan.watch_refused(429, std::chrono::seconds(0), 0), Do::watch, milliseconds(1600), milliseconds(1600));
  check(plan.watch_refused(429, std::chrono::seconds(1), 0), Do::watch, milliseconds(3200), milliseconds(3200));
  check(plan.list_failed(503, std::chrono::seconds::min(), 0), Do::list, milliseconds(3200), milliseconds(3200));
}

TEST_CASE("watch plan: refusals that time may not heal are asked again at leisure; a first 401 at once") {
  WatchPlan plan({milliseconds(100), milliseconds(1000)});
  check(plan.list_failed(403, none, 0), Do::list, milliseconds(500), milliseconds(500));
  WatchPlan other({milliseconds(100), milliseconds(1000)});
  check(other.watch_refused(401, none, 0), Do::watch, milliseconds(0), milliseconds(0));
  CHECK(other.watch_refused(401, none, 0).delay > milliseconds(0));
}

TEST_CASE("watch plan: a watch that is refused again and again ends in a list") {
  WatchPlan plan;
  for (int i = 0; i < 5; ++i) CHECK(plan.watch_refused(504, none, 0).what == Do::watch);
  CHECK(plan.watch_refused(504, none, 0).what == Do::list);
  for (int i = 1; i <= 3; ++i) {
    CHECK(plan.list_stale(0).what == Do::list);
    CHECK(plan.stale_lists() == i);
  }
  (void)plan.list_done();
  CHECK(plan.stale_lists() == 0);
}

TEST_CASE("watch plan: two watches in a row without a word end in a list") {
  WatchPlan plan({milliseconds(100), milliseconds(1000)});
  check(plan.watch_silent(0), Do::watch, milliseconds(50), milliseconds(50));
  check(plan.watch_silent(0), Do::list, milliseconds(100), milliseconds(100));
  (void)plan.list_done();
  CHECK(plan.watch_silent(0).what == Do::watch);
  plan.progress();
  CHECK(plan.watch_silent(0).what == Do::watch);
  CHECK(plan.watch_ended(false, 0).what == Do::watch);  // neither this nor that
  CHECK(plan.watch_silent(0).what == Do::list);
}

TEST_CASE("watch plan: two watches in a row whose last word was old news end in a list") {
  WatchPlan plan;
  const auto end = [&] { return plan.watch_ended(true, 0); };
  plan.old_news();
  check(end(), Do::watch, milliseconds(0), milliseconds(0));
  plan.old_news();
  check(end(), Do::list, milliseconds(0), milliseconds(0));
  (void)plan.list_done();
  plan.old_news();
  CHECK(end().what == Do::watch);
  plan.old_news();
  plan.progress();
  CHECK(end().what == Do::watch);
  plan.old_news();
  CHECK(end().what == Do::watch);
  plan.old_news();
  CHECK(plan.watch_silent(0).what == Do::list);
}

}  // namespace warmroute::kube
