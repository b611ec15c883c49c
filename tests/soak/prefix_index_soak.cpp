// prefix-cache through two hours of a fleet, in short: pods come, restart and go, prompts are unique, shared and turns
// of conversations, attempts succeed and fail. At the end all pods have left; what the allocator says is in use must be
// what it was when the fleet was empty for the first time, within 5 %, and resident memory within 20 % after trimming.
//
// soak_prefix_index [hours of the fleet, default 2]. An hour is 360,000 requests (a hundred a second for 24 pods), by
// two threads as fast as the machine can, and 720 pods that come or go. Exit code 1 when memory grew.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <random>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include "app/plugin_host.hpp"
#include "metrics/registry.hpp"
#include "warmroute/plugin_registry.hpp"

namespace {

using namespace warmroute;
using Clock = std::chrono::steady_clock;

constexpr std::size_t pod_slots = 24;
constexpr std::size_t requests_per_hour = 360'000;
constexpr std::size_t requests_per_pod_change = 500;

std::size_t bytes_in_use() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

struct Memory {
  std::size_t in_use = 0, resident = 0;
  static Memory now() {
    (void)::malloc_trim(0);
    return {bytes_in_use(), resident_bytes()};
  }
};

/// A plugin as the router runs it: real metrics, real hooks, a fleet whose pods change under the workers.
class Soak {
 public:
  Soak() : registry_(metrics::Registry::create()), host_(*registry_) {
    Registry plugins;
    register_plugins(plugins);
    Value::Map args;
    args.emplace_back("maxBlocksToMatch", Value{std::int64_t{256}});
    args.emplace_back("maxHashCacheSize", Value{std::string("auto")});
    args.emplace_back("recordOn", Value{std::string("dispatch")});
    args.emplace_back("learnFromUsage", Value{true});
    plugin_ = plugins.make("prefix-cache", Args(Value{std::move(args)}), host_).value();
  }

  /// On a thread of its own: what the allocator keeps at hand for a thread counts as in use until the thread has ended.
  void run(double hours, unsigned seed) {
    std::thread([this, hours, seed] { live(hours, seed); }).join();
  }

  [[nodiscard]] std::size_t requests() const { return done_; }
  [[nodiscard]] std::size_t changes() const { return changes_; }
  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  void live(double hours, unsigned seed) {
    host_.start_background();
    for (std::uint32_t slot = 0; slot < pod_slots; ++slot) join(slot);
    std::atomic<bool> stop{false};
    std::vector<std::thread> workers;
    for (unsigned i = 0; i < 2; ++i) workers.emplace_back([this, &stop, seed, i] { work(stop, seed * 100 + i); });
    const std::size_t first = done_;
    const auto wanted = static_cast<std::size_t>(hours * static_cast<double>(requests_per_hour));
    std::mt19937_64 random(seed);
    std::size_t changes = 0;
    while (done_ - first < wanted) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      for (; changes * requests_per_pod_change < done_ - first; ++changes) change_a_pod(random);
    }
    stop = true;
    for (auto& worker : workers) worker.join();
    peak_ = std::max(peak_, bytes_in_use());
    for (std::uint32_t slot = 0; slot < pod_slots; ++slot) leave(slot);
    changes_ += changes;
    (void)registry_->serialize();  // as an operator's scrape would
    host_.stop_background();       // sweeps what is left
  }

  // Pods change on this (the control) thread; workers see a list of their own, a little late, as in the router.
  void join(std::uint32_t slot) {
    const PodId pod{slot, ++generation_};
    host_.pod_joined(pod);
    host_.engine_facts(pod, {"ns/pod-" + std::to_string(slot), 400'000 + 10'000 * slot});
    const std::unique_lock lock(mutex_);
    pods_[slot] = pod;
  }
  void leave(std::uint32_t slot) {
    PodId pod;
    {
      const std::unique_lock lock(mutex_);
      pod = std::exchange(pods_[slot], PodId{});
    }
    if (pod.generation != 0) host_.pod_left(pod);
  }
  void change_a_pod(std::mt19937_64& random) {
    const auto slot = static_cast<std::uint32_t>(random() % pod_slots);
    const bool stays_away = random() % 3 == 0;
    peak_ = std::max(peak_, bytes_in_use());
    leave(slot);
    if (!stays_away) join(slot);
    const auto back = static_cast<std::uint32_t>(random() % pod_slots);
    bool away = false;
    {
      const std::shared_lock lock(mutex_);
      away = pods_[back].generation == 0;
    }
    if (away) join(back);
  }

  static std::string prompt(std::mt19937_64& random, std::vector<std::string>& talks) {
    const auto kind = random() % 10;
    std::string text;
    if (kind < 5) {  // one of a few system prompts and something of its own
      text = "system prompt " + std::to_string(random() % 12);
      text.resize(1024, '.');
      text += std::to_string(random());
      text.resize(1024 + random() % 3000, '-');
    } else if (kind < 8) {  // the next turn of a conversation
      std::string& talk = talks[random() % talks.size()];
      if (talk.size() > 12000) talk.clear();
      talk += "turn " + std::to_string(random());
      talk.resize(talk.size() + random() % 1500, ' ');
      text = talk;
    } else {
      text = std::to_string(random());
      text.resize(20 + random() % 6000, 'u');
    }
    return text;
  }

  void work(const std::atomic<bool>& stop, unsigned seed) {
    auto& scorer = dynamic_cast<ScorePlugin&>(*plugin_);
    auto& hook = dynamic_cast<PostRequest&>(*plugin_);
    std::mt19937_64 random(seed);
    std::vector<std::string> talks(64);
    std::vector<PodView> views;
    std::vector<std::int64_t> scores;
    constexpr std::array<std::string_view, 3> models{"base", "adapter-1", "adapter-2"};
    while (!stop.load(std::memory_order_relaxed)) {
      views.clear();
      {
        const std::shared_lock lock(mutex_);
        for (const auto& pod : pods_)
          if (pod.generation != 0) views.emplace_back().id = pod;
      }
      if (views.empty()) continue;
      const std::string text = prompt(random, talks);
      RequestView request;
      request.model = models[random() % models.size()];
      request.prompt = text;
      request.token_estimate = static_cast<std::int64_t>(text.size() / 4);
      const auto state = plugin_->new_state();
      scores.assign(views.size(), 0);
      (void)scorer.score(request, state.get(), views, scores);
      const auto best = std::max_element(scores.begin(), scores.end());
      const auto chosen = *best > 0 ? static_cast<std::size_t>(best - scores.begin()) : random() % views.size();
      const PodId pod = views[chosen].id;
      hook.attempt_started(request, state.get(), pod);
      Outcome outcome;
      const bool fails = random() % 20 == 0;
      outcome.end = fails ? Outcome::End::cut : Outcome::End::complete;
      outcome.status = 200;
      outcome.prompt_tokens = static_cast<std::int64_t>(text.size() / 4 + 1);
      outcome.cached_tokens = random() % 15 == 0 ? 0 : outcome.prompt_tokens / 2;
      hook.attempt_done(request, state.get(), pod, outcome);
      ++done_;
    }
  }

  std::unique_ptr<metrics::Registry> registry_;
  app::PluginHost host_;
  std::shared_ptr<Plugin> plugin_;
  std::shared_mutex mutex_;
  std::array<PodId, pod_slots> pods_{};
  std::uint32_t generation_ = 0;
  std::atomic<std::size_t> done_{0};
  std::size_t changes_ = 0, peak_ = 0;
};

bool within(const char* what, std::size_t start, std::size_t end, double limit) {
  const double growth = static_cast<double>(end) / static_cast<double>(start) - 1;
  const bool good = growth <= limit;
  std::printf("%-34s %9.1f KiB at the start, %9.1f KiB at the end: %+.1f %% (limit %+.0f %%)  %s\n", what,
              static_cast<double>(start) / 1024, static_cast<double>(end) / 1024, growth * 100, limit * 100,
              good ? "ok" : "TOO MUCH");
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const double hours = argc > 1 ? std::atof(argv[1]) : 2;
  if (!(hours >= 0.01 && hours <= 1000)) {
    std::fprintf(stderr, "usage: %s [hours, 0.01 to 1000]\n", argv[0]);
    return 2;
  }
  // One arena: else the allocator's count depends on which thread freed what.
  (void)::mallopt(M_ARENA_MAX, 1);
  Soak soak;
  // A short life first: what is made once (series, thread tables, the index's own arrays) is there afterwards.
  soak.run(std::max(0.01, hours / 20), 1);
  const Memory start = Memory::now();
  const auto before = soak.requests();
  const auto from = Clock::now();
  soak.run(hours, 2);
  const Memory end = Memory::now();
  const auto requests = soak.requests() - before;
  const std::chrono::duration<double> took = Clock::now() - from;
  std::printf("%zu requests (%.2f hours of the fleet) in %.0f s, %zu pods came or went, at most %.1f MiB in use\n",
              requests, static_cast<double>(requests) / static_cast<double>(requests_per_hour), took.count(),
              soak.changes(), static_cast<double>(soak.peak()) / (1 << 20));
  if (start.in_use == 0) {
    std::printf("this allocator does not count (a sanitizer's): memory is not judged\n");
    return 0;
  }
  const bool in_use = within("bytes in use (allocator's count)", start.in_use, end.in_use, 0.05);
  const bool resident = within("resident after trimming", start.resident, end.resident, 0.20);
  return in_use && resident ? 0 : 1;
}
