// Prints the latency of a random memory read in nanoseconds: what absolute figures of one machine depend on most.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

int main() {
  constexpr std::size_t slots = 64 * 1024 * 1024 / sizeof(std::uint32_t);
  constexpr std::size_t line = 64 / sizeof(std::uint32_t);
  std::vector<std::uint32_t> order(slots / line);
  std::iota(order.begin(), order.end(), 0U);
  std::shuffle(order.begin(), order.end(), std::mt19937(1));
  std::vector<std::uint32_t> next(slots);  // one slot per cache line is used, all in one ring
  for (std::size_t i = 0; i < order.size(); ++i)
    next[order[i] * line] = static_cast<std::uint32_t>(order[(i + 1) % order.size()] * line);
  constexpr int reads = 2'000'000;
  std::uint32_t at = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < reads; ++i) at = next[at];
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  volatile auto keep = at;
  (void)keep;
  std::printf("%.0f\n", took.count() / reads);
}
