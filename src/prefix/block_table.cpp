#include "prefix/block_table.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <utility>

namespace warmroute::prefix {
namespace {

constexpr std::size_t cells_per_bucket = 5;
constexpr std::size_t most_single_cells = 3;  ///< a block of more pods gets a PodSet
constexpr std::uint16_t spilled_limit = std::numeric_limits<std::uint16_t>::max();
constexpr PodNumber set_mark = 0xFFFF;  ///< in place of a pod number: the place is the number of a set

}  // namespace

struct BlockTable::Cell {
  std::array<std::uint32_t, 3> words{};

  Cell() = default;
  Cell(std::uint64_t hash, PodNumber pod, Place place) noexcept
      : words{static_cast<std::uint32_t>(hash), (static_cast<std::uint32_t>(hash >> 32U) << 8U) | (place & 0xFFU),
              ((place >> 8U) << 16U) | pod} {}
  [[nodiscard]] bool holds(std::uint64_t hash) const noexcept {
    return words[0] == static_cast<std::uint32_t>(hash) &&
           ((words[1] ^ (static_cast<std::uint32_t>(hash >> 32U) << 8U)) >> 8U) == 0;
  }
  [[nodiscard]] std::uint64_t hash() const noexcept {
    return words[0] | (static_cast<std::uint64_t>(words[1] >> 8U) << 32U);
  }
  [[nodiscard]] PodNumber pod() const noexcept { return static_cast<PodNumber>(words[2]); }
  [[nodiscard]] Place place() const noexcept { return ((words[2] >> 16U) << 8U) | (words[1] & 0xFFU); }
};

struct alignas(64) BlockTable::Bucket {
  std::array<Cell, cells_per_bucket> cells;
  std::uint8_t used = 0;      ///< a bit for each cell
  std::uint16_t spilled = 0;  ///< cells that belong here or further up but stand further down; sticks at its limit

  [[nodiscard]] bool full() const noexcept { return used == (1U << cells_per_bucket) - 1; }
};

struct alignas(64) BlockTable::Shard {
  struct Sets {
    std::vector<std::unique_ptr<PodSet>> items;
    std::vector<Place> unused;
  };
  struct Spot {
    std::size_t bucket = 0, cell = 0;
  };

  mutable std::mutex mutex;
  // Written under the mutex. Read without it by prefetch() only, where a stale pair does no harm.
  std::atomic<Bucket*> buckets{nullptr};
  std::atomic<std::uint32_t> bucket_count{0};
  std::uint32_t cell_count = 0;
  std::unique_ptr<Sets> sets;

  ~Shard() { delete[] buckets.load(std::memory_order_relaxed); }

  /// Multiply-shift over bits that the shard number does not use: any number of buckets will do.
  [[nodiscard]] std::size_t home(std::uint64_t hash) const noexcept {
    const std::uint64_t count = bucket_count.load(std::memory_order_relaxed);
    return static_cast<std::size_t>((((hash >> 16U) & 0xFFFFFFFFU) * count) >> 32U);
  }
  [[nodiscard]] std::size_t after(std::size_t bucket) const noexcept {
    return bucket + 1 == bucket_count.load(std::memory_order_relaxed) ? 0 : bucket + 1;
  }
  [[nodiscard]] Bucket& at(std::size_t bucket) const noexcept {
    return buckets.load(std::memory_order_relaxed)[bucket];
  }
  [[nodiscard]] Cell& cell(Spot spot) const noexcept { return at(spot.bucket).cells[spot.cell]; }

  /// Calls `each(spot)` for the cells of a hash until it returns true. \return whether it did
  template <class Each>
  bool any_cell(std::uint64_t hash, Each&& each) const {
    if (cell_count == 0) return false;
    std::size_t bucket = home(hash);
    for (std::size_t seen = 0; seen < bucket_count.load(std::memory_order_relaxed); ++seen) {
      const Bucket& current = at(bucket);
      for (std::size_t i = 0; i < cells_per_bucket; ++i) {
        if ((current.used & (1U << i)) == 0 || !current.cells[i].holds(hash)) continue;
        if (each(Spot{bucket, i})) return true;
      }
      if (current.spilled == 0) return false;
      bucket = after(bucket);
    }
    return false;
  }

  [[nodiscard]] PodSet& set(const Cell& of) const noexcept { return *sets->items[of.place()]; }

  void put(const Cell& made) noexcept {
    std::size_t bucket = home(made.hash());
    for (; at(bucket).full(); bucket = after(bucket))
      if (at(bucket).spilled != spilled_limit) ++at(bucket).spilled;
    Bucket& target = at(bucket);
    std::size_t free = 0;
    while ((target.used & (1U << free)) != 0) ++free;
    target.cells[free] = made;
    target.used = static_cast<std::uint8_t>(target.used | (1U << free));
    ++cell_count;
  }

  void take(Spot spot) noexcept {
    for (std::size_t bucket = home(cell(spot).hash()); bucket != spot.bucket; bucket = after(bucket))
      if (at(bucket).spilled != spilled_limit) --at(bucket).spilled;
    Bucket& target = at(spot.bucket);
    target.used = static_cast<std::uint8_t>(target.used & ~(1U << spot.cell));
    --cell_count;
  }

  void resize(std::size_t wanted) {
    auto* fresh = wanted == 0 ? nullptr : new Bucket[wanted];
    const std::size_t old_count = bucket_count.load(std::memory_order_relaxed);
    Bucket* old = buckets.exchange(fresh, std::memory_order_relaxed);
    bucket_count.store(static_cast<std::uint32_t>(wanted), std::memory_order_relaxed);
    cell_count = 0;
    for (std::size_t bucket = 0; bucket < old_count; ++bucket)
      for (std::size_t i = 0; i < cells_per_bucket; ++i)
        if ((old[bucket].used & (1U << i)) != 0) put(old[bucket].cells[i]);
    delete[] old;
  }

  /// Grows by a quarter at 85 % of the cells: a full table of 12-byte cells then costs 15 to 19 bytes for each.
  void make_room() {
    const std::size_t count = bucket_count.load(std::memory_order_relaxed);
    if ((std::size_t{cell_count} + 1) * 20U <= count * cells_per_bucket * 17U) return;
    resize(count + count / 4 + 1);
  }

  void shrink() noexcept {
    const std::size_t count = bucket_count.load(std::memory_order_relaxed);
    if (cell_count != 0 && (count < 2 || std::size_t{cell_count} * 5U > count * cells_per_bucket * 2U)) return;
    if (cell_count == 0) sets.reset();
    try {
      resize(cell_count == 0 ? 0 : count * 3 / 5 + 1);
    } catch (const std::bad_alloc&) {
      // The larger table serves as well.
    }
  }

  /// Turns the single cells of a block into a set with one pod more.
  void gather(std::uint64_t hash, PodNumber pod, Place place, std::span<const Spot> spots) {
    if (!sets) sets = std::make_unique<Sets>();
    auto made = std::make_unique<PodSet>();
    for (const Spot spot : spots) made->insert(cell(spot).pod(), cell(spot).place());
    made->insert(pod, place);
    if (sets->unused.capacity() <= sets->items.size())  // giving a number back must need no memory
      sets->unused.reserve(2 * sets->items.size() + 4);
    if (sets->unused.empty()) {
      sets->items.push_back(nullptr);
      sets->unused.push_back(static_cast<Place>(sets->items.size() - 1));
    }
    const Place number = sets->unused.back();
    sets->unused.pop_back();
    sets->items[number] = std::move(made);
    for (const Spot spot : spots) take(spot);
    put(Cell(hash, set_mark, number));
  }
};

BlockTable::BlockTable() : shards_(std::make_unique<Shard[]>(std::size_t{1} << shard_bits)) {}
BlockTable::~BlockTable() = default;

BlockTable::Shard& BlockTable::shard_of(std::uint64_t hash) const noexcept {
  return shards_[hash >> (64U - shard_bits)];
}

void BlockTable::insert(std::uint64_t hash, PodNumber pod, Place place) {
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  shard.make_room();
  std::array<Shard::Spot, most_single_cells> spots;
  std::size_t found = 0;
  PodSet* set = nullptr;
  (void)shard.any_cell(hash, [&](Shard::Spot spot) {
    if (shard.cell(spot).pod() == set_mark) set = &shard.set(shard.cell(spot));
    if (set == nullptr) spots[found++] = spot;
    return set != nullptr || found == most_single_cells;
  });
  if (set != nullptr) {
    set->insert(pod, place);
  } else if (found == most_single_cells) {
    shard.gather(hash, pod, place, spots);
  } else {
    shard.put(Cell(hash, pod, place));
  }
}

void BlockTable::erase(std::uint64_t hash, PodNumber pod) noexcept {
  Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  (void)shard.any_cell(hash, [&](Shard::Spot spot) {
    Cell& cell = shard.cell(spot);
    if (cell.pod() == pod) {
      shard.take(spot);
      return true;
    }
    if (cell.pod() != set_mark) return false;
    PodSet& set = shard.set(cell);
    if (!set.find(pod)) return true;
    set.erase(pod);
    if (set.size() != 1) return true;
    const PodNumber last = set.first();
    const Place place = *set.find(last);
    const Place number = cell.place();
    cell = Cell(cell.hash(), last, place);
    shard.sets->items[number].reset();
    shard.sets->unused.push_back(number);
    return true;
  });
  shard.shrink();
}

std::optional<Place> BlockTable::find(std::uint64_t hash, PodNumber pod) const {
  const Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  std::optional<Place> place;
  (void)shard.any_cell(hash, [&](Shard::Spot spot) {
    const Cell& cell = shard.cell(spot);
    if (cell.pod() == pod) place = cell.place();
    if (cell.pod() == set_mark) place = shard.set(cell).find(pod);
    return place.has_value() || cell.pod() == set_mark;
  });
  return place;
}

std::size_t BlockTable::probe(std::uint64_t hash, std::span<const std::uint64_t> candidates,
                              std::span<std::uint64_t> found) const {
  std::fill(found.begin(), found.end(), 0);
  const Shard& shard = shard_of(hash);
  const std::lock_guard lock(shard.mutex);
  std::size_t count = 0;
  (void)shard.any_cell(hash, [&](Shard::Spot spot) {
    const Cell& cell = shard.cell(spot);
    const PodNumber pod = cell.pod();
    if (pod == set_mark) {
      count = shard.set(cell).intersect(candidates, found);
      return true;
    }
    const std::uint64_t bit = std::uint64_t{1} << (pod % 64U);
    if (pod / 64U < candidates.size() && (candidates[pod / 64U] & bit) != 0) {
      found[pod / 64U] |= bit;
      ++count;
    }
    return false;
  });
  return count;
}

void BlockTable::prefetch(std::uint64_t hash) const noexcept {
  const Shard& shard = shard_of(hash);
  const auto base = reinterpret_cast<std::uintptr_t>(shard.buckets.load(std::memory_order_relaxed));
  // An integer, because pointer and count may be of different moments. NOLINTNEXTLINE(performance-no-int-to-ptr)
  __builtin_prefetch(reinterpret_cast<const void*>(base + shard.home(hash) * sizeof(Bucket)));
}

std::size_t BlockTable::bytes() const {
  std::size_t sum = (std::size_t{1} << shard_bits) * sizeof(Shard);
  for (std::size_t i = 0; i < std::size_t{1} << shard_bits; ++i) {
    const Shard& shard = shards_[i];
    const std::lock_guard lock(shard.mutex);
    sum += shard.bucket_count.load(std::memory_order_relaxed) * sizeof(Bucket);
    if (!shard.sets) continue;
    sum += sizeof *shard.sets + shard.sets->items.capacity() * sizeof(void*) +
           shard.sets->unused.capacity() * sizeof(Place);
    for (const auto& set : shard.sets->items)
      if (set) sum += set->bytes();
  }
  return sum;
}

}  // namespace warmroute::prefix
