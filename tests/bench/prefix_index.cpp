// What the prefix index costs: bench_prefix_index [entries per pod, default 50000]. Figures depend on the machine's
// memory more than on anything else, so a memory-latency probe of the same run stands beside them.
#include <malloc.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/rng.hpp"
#include "prefix/block_hash.hpp"
#include "prefix/index.hpp"

namespace {

using namespace warmroute;
using namespace warmroute::prefix;
using Clock = std::chrono::steady_clock;
using Blocks = std::vector<std::uint64_t>;

constexpr std::size_t chain_length = 128;
constexpr std::size_t head_length = 32;  // shared by all prompts of a pod fleet: a system prompt
constexpr std::size_t top_k = 5;

volatile std::uint64_t sink = 0;

double nanoseconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::nano>(to - from).count();
}

std::size_t allocated_bytes() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27U)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31U);
}

/// `head` blocks that every prompt shares, then blocks of its own.
Blocks prompt(std::uint64_t number, std::size_t head, std::size_t length = chain_length) {
  Blocks blocks(length);
  for (std::size_t i = 0; i < length; ++i) blocks[i] = mixed(i < head ? i + 1 : (number + 1) * 1000 + i);
  return blocks;
}

struct Named {
  PodId id;
};

struct Fleet {
  Fleet(std::size_t pods, std::size_t capacity) : index(capacity), per_pod(capacity / (chain_length - head_length)) {
    for (std::uint32_t slot = 0; slot < pods; ++slot) {
      members.push_back({{slot, 1}});
      index.add(members.back().id);
    }
    Evictions evicted;
    for (std::size_t round = 0; round <= per_pod; ++round)
      for (std::size_t pod = 0; pod < pods; ++pod)
        index.record(members[pod].id, prompt(number(pod, round), head_length), 0, evicted);
  }
  [[nodiscard]] static std::uint64_t number(std::size_t pod, std::size_t round) { return pod * 100000 + round; }
  /// A prompt that some pod still has whole.
  [[nodiscard]] Blocks known() const {
    const std::size_t newest = per_pod - base::random_below(std::max<std::size_t>(per_pod / 2, 1));
    return prompt(number(base::random_below(members.size()), newest), head_length);
  }

  Index index;
  std::size_t per_pod;
  std::vector<Named> members;
};

/// Each lookup is timed alone, on a prompt of its own; prompts are made in batches beforehand.
template <class Make>
void time_lookups(const char* name, const Fleet& fleet, Make make) {
  constexpr std::size_t batch = 500, batches = 40;
  Candidates candidates;
  std::vector<Match> found;
  std::vector<double> times;
  std::vector<Blocks> prompts(batch);
  std::size_t matched = 0;
  for (std::size_t b = 0; b < batches; ++b) {
    for (auto& item : prompts) item = make();
    for (const auto& blocks : prompts) {
      const auto from = Clock::now();
      fleet.index.choose<Named>(fleet.members, candidates, 1);
      fleet.index.lookup(blocks, candidates, top_k, found);
      times.push_back(nanoseconds(from, Clock::now()));
      matched += found.empty() ? 0 : found.front().blocks;
    }
  }
  std::sort(times.begin(), times.end());
  std::printf("  %-34s median %6.0f ns   p99 %7.0f ns   longest match %5.1f blocks\n", name, times[times.size() / 2],
              times[times.size() * 99 / 100], static_cast<double>(matched) / static_cast<double>(times.size()));
}

void lookups(const Fleet& fleet) {
  std::uint64_t fresh = 1U << 30U;
  time_lookups("hit at the end", fleet, [&] { return fleet.known(); });
  time_lookups("hit in the middle", fleet, [&] {
    Blocks blocks = fleet.known();
    const Blocks other = prompt(++fresh, 0);
    std::copy(other.begin() + 80, other.end(), blocks.begin() + 80);
    return blocks;
  });
  time_lookups("total miss", fleet, [&] { return prompt(++fresh, 0); });
  time_lookups("crowded: all pods, shared head only", fleet, [&] { return prompt(++fresh, head_length); });
  Candidates candidates;
  const auto from = Clock::now();
  for (int i = 0; i < 10000; ++i) fleet.index.choose<Named>(fleet.members, candidates);
  std::printf("  %-34s %13.0f ns (where pods changed, or a filter removed some)\n", "naming the candidates anew",
              nanoseconds(from, Clock::now()) / 10000);
}

void recording(Fleet& fleet) {
  Evictions evicted;
  std::vector<double> fresh_times, again_times;
  std::uint64_t fresh = std::uint64_t{1} << 40U;
  for (int i = 0; i < 4000; ++i) {
    const PodId pod = fleet.members[base::random_below(fleet.members.size())].id;
    const Blocks blocks = prompt(++fresh, head_length);
    evicted.clear();
    const auto from = Clock::now();
    fleet.index.record(pod, blocks, 0, evicted);
    const auto between = Clock::now();
    fleet.index.record(pod, blocks, 0, evicted);
    fresh_times.push_back(nanoseconds(from, between));
    again_times.push_back(nanoseconds(between, Clock::now()));
  }
  std::sort(fresh_times.begin(), fresh_times.end());
  std::sort(again_times.begin(), again_times.end());
  std::printf("  recording %zu blocks (%zu new, as many evicted)  median %6.0f ns, %4.0f ns a new block\n",
              chain_length, chain_length - head_length, fresh_times[2000],
              fresh_times[2000] / (chain_length - head_length));
  std::printf("  recording the same blocks again               median %6.0f ns\n", again_times[2000]);
}

void removal(Fleet& fleet) {
  const std::size_t before = fleet.index.entries();
  double longest = 0, sum = 0;
  constexpr std::size_t removed = 4;
  for (std::size_t i = 0; i < removed && i < fleet.members.size(); ++i) {
    const auto from = Clock::now();
    fleet.index.forget(fleet.members[i].id);
    sum += nanoseconds(from, Clock::now());
    for (bool more = true; more;) {
      const auto step = Clock::now();
      more = fleet.index.sweep(2000);
      longest = std::max(longest, nanoseconds(step, Clock::now()));
      sum += nanoseconds(step, Clock::now());
    }
  }
  const auto gone = static_cast<double>(before - fleet.index.entries());
  std::printf("  removal: %.0f ns an entry, longest step of 2000 entries %.0f us\n", sum / gone, longest / 1000);
}

/// Lookups and, if `write`, one recording for each, by `threads` threads for half a second.
double throughput(Fleet& fleet, unsigned threads, bool write) {
  std::atomic<unsigned> ready{0};
  std::atomic<bool> go{false}, stop{false};
  std::atomic<std::uint64_t> done{0};
  const auto work = [&] {
    Candidates candidates;
    std::vector<Match> found;
    Evictions evicted;
    std::vector<Blocks> prompts;
    for (int i = 0; i < 2000; ++i) prompts.push_back(fleet.known());
    ++ready;
    while (!go) std::this_thread::yield();
    std::uint64_t count = 0;
    for (; !stop.load(std::memory_order_relaxed); ++count) {
      const Blocks& blocks = prompts[count % prompts.size()];
      fleet.index.choose<Named>(fleet.members, candidates, 1);
      fleet.index.lookup(blocks, candidates, top_k, found);
      if (!write) continue;
      evicted.clear();
      fleet.index.record(fleet.members[found.empty() ? 0 : found.front().candidate].id, blocks, 0, evicted);
    }
    done += count;
  };
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < threads; ++t) workers.emplace_back(work);
  while (ready != threads) std::this_thread::yield();
  const auto from = Clock::now();
  go = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  stop = true;
  const auto to = Clock::now();
  for (auto& worker : workers) worker.join();
  return static_cast<double>(done) / nanoseconds(from, to) * 1e3;  // millions a second
}

void hashing() {
  std::printf("hashing\n");
  const std::string text(1U << 20U, 'x');
  Blocks out;
  const auto best = [](auto&& work) {
    double least = 1e18;
    for (int i = 0; i < 50; ++i) {
      const auto from = Clock::now();
      work();
      least = std::min(least, nanoseconds(from, Clock::now()));
    }
    return least;
  };
  const double pass = best([&] { sink = sink + XXH3_64bits(text.data(), text.size()); });
  for (const std::size_t block : {16U, 64U, 256U, 1024U}) {
    const double time = best([&] {
      out.clear();
      hash_blocks(1, text, {}, block, text.size(), out);
      sink = sink + out.back();
    });
    std::printf("  1 MiB in blocks of %4zu bytes: %5.2f GB/s, %5.1f ns a block, %4.2f x one XXH3_64bits pass\n", block,
                static_cast<double>(text.size()) / time, time / static_cast<double>(out.size()), time / pass);
  }
  const double small = best([&] {
    out.clear();
    hash_blocks(1, std::string_view(text).substr(0, 8192), {}, 64, 128, out);
    sink = sink + out.back();
  });
  std::printf("  a prompt of 8 KiB: %.0f ns\n", small);
}

double memory_latency() {
  constexpr std::size_t count = 8U << 20U;  // 64 MiB
  std::vector<std::size_t> next(count);
  std::iota(next.begin(), next.end(), std::size_t{0});
  for (std::size_t i = count - 1; i > 0; --i) std::swap(next[i], next[base::random_below(i)]);  // one cycle
  std::size_t at = 0;
  const auto from = Clock::now();
  for (int i = 0; i < 1000000; ++i) at = next[at];
  const double time = nanoseconds(from, Clock::now()) / 1e6;
  sink = sink + at;
  return time;
}

void fleet_of(std::size_t pods, std::size_t capacity) {
  const std::size_t before = allocated_bytes();
  Fleet fleet(pods, capacity);
  const std::size_t entries = fleet.index.entries();
  std::printf("%zu pods, %zu entries each\n", pods, entries / pods);
  std::printf("  memory: %.1f bytes an entry by the allocator's count, %.1f by the index's own\n",
              static_cast<double>(allocated_bytes() - before) / static_cast<double>(entries),
              static_cast<double>(fleet.index.bytes()) / static_cast<double>(entries));
  lookups(fleet);
  recording(fleet);
  for (const bool write : {false, true})
    std::printf("  throughput, %-26s 1 thread %5.2f, 2 threads %5.2f million a second\n",
                write ? "lookup and recording:" : "lookup:", throughput(fleet, 1, write), throughput(fleet, 2, write));
  removal(fleet);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t capacity = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 50000;
  if (capacity < 1000 || capacity > Index::max_capacity) {
    std::fprintf(stderr, "usage: %s [entries per pod, 1000 to %zu]\n", argv[0], Index::max_capacity);
    return 2;
  }
  std::printf("memory latency (random reads in 64 MiB): %.0f ns\n", memory_latency());
  hashing();
  fleet_of(1, capacity);
  fleet_of(64, capacity);
  fleet_of(1000, std::max<std::size_t>(capacity / 16, 1000));  // as many entries as 64 pods have, in less memory
  return 0;
}
