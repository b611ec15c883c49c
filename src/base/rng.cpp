#include "base/rng.hpp"

#include <array>
#include <bit>
#include <random>

namespace warmroute::base {
namespace {

struct Generator {
  std::array<std::uint64_t, 4> state{};

  Generator() {
    std::random_device device;
    for (auto& word : state) word = (std::uint64_t{device()} << 32U) | device();
  }

  void seed(std::uint64_t value) noexcept {
    for (auto& word : state) {  // splitmix64, as its authors recommend for seeding
      value += 0x9e3779b97f4a7c15U;
      std::uint64_t mixed = value;
      mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9U;
      mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111ebU;
      word = mixed ^ (mixed >> 31U);
    }
  }

  std::uint64_t next() noexcept {
    const std::uint64_t result = std::rotl(state[0] + state[3], 23) + state[0];
    const std::uint64_t shifted = state[1] << 17U;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = std::rotl(state[3], 45);
    return result;
  }
};

Generator& generator() {
  thread_local Generator instance;
  return instance;
}

}  // namespace

std::uint64_t random64() noexcept { return generator().next(); }

std::uint64_t random_below(std::uint64_t bound) noexcept {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(random64()) * bound) >> 64U);
}

void seed_this_thread(std::uint64_t seed) noexcept { generator().seed(seed); }

}  // namespace warmroute::base
