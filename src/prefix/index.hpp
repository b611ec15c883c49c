#pragma once
// Which pods were sent which prompt prefixes (the seed's chapter "How It Works"). All functions may be called from
// any thread at once, but for add() and forget() of the same pod, which follow each other.
//
// Meaning: a pod has a list of blocks, least recently used last, of at most `capacity`. Recording a prompt brings all
// its blocks to the front, the prompt's head first; so of any chain a pod always holds a contiguous prefix, and the
// longest match is found by bisection. Looking up refreshes nothing.
//
// Locks: a mutex per pod (recording, forgetting), under it one per shard of the table (BlockTable); a lookup takes
// shard mutexes only, one at a time. Pods have numbers of their own inside the index: a number is used again only when
// every trace of its last pod is gone, so removal may take its time without a new pod inheriting anything.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "prefix/block_table.hpp"
#include "prefix/pod_list.hpp"
#include "warmroute/pod_view.hpp"

namespace warmroute::prefix {

/// The pods that a lookup may find; reusable, one thread at a time. Named again only when they may be others.
class Candidates {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

 private:
  friend class Index;
  std::uint64_t index_ = 0, membership_ = 0, version_ = 0;  ///< what the rest was made from; version 0: nobody knows
  std::vector<std::uint64_t> words_;                        ///< a bit for each pod number
  std::vector<std::uint32_t> positions_;                    ///< by pod number; only where the bit is set
  std::size_t count_ = 0;
};

struct Match {
  std::uint32_t candidate = 0;  ///< position among the pods given
  std::uint32_t blocks = 0;     ///< length of its match, at least 1
};

struct Evicted {
  ModelNumber model = 0;
  std::size_t entries = 0;
};

/// What a recording pushed out, by the model that had recorded it; reusable.
using Evictions = std::vector<Evicted>;

/// A chain recorded before its answer was complete; numbers are of one pod.
using CreditId = std::uint64_t;
inline constexpr CreditId no_credit = 0;

struct PodFill {
  std::size_t entries = 0;
  std::size_t capacity = 0;  ///< 0: the pod is unknown
};

/// An entry outside the index.
struct StoredBlock {
  std::uint64_t hash = 0;
  ModelNumber model = 0;
  friend bool operator==(const StoredBlock&, const StoredBlock&) = default;
};

class Index {
 public:
  static constexpr std::size_t max_capacity = BlockTable::max_places;

  /// `capacity`: entries of a pod that has no other by set_capacity(), 1..max_capacity.
  explicit Index(std::size_t capacity);
  ~Index();
  Index(const Index&) = delete;
  Index& operator=(const Index&) = delete;

  /// The incarnation may be recorded from now on; without it recordings are dropped. A pod beyond the limits of this
  /// index (65,534 at once, slots below 65,536) stays unknown: it is never matched. An earlier incarnation in the same
  /// slot is forgotten.
  void add(PodId pod);
  /// From the return on nothing matches the incarnation, is recorded for it or counted. Its memory comes back by
  /// sweep(). \throws std::bad_alloc, and then nothing changed
  void forget(PodId pod);
  /// Removes up to `entries` entries of forgotten pods. Returns at once when another thread is at it.
  /// \return whether more may be left
  bool sweep(std::size_t entries) noexcept;
  [[nodiscard]] bool needs_sweep() const noexcept { return dead_.load(std::memory_order_relaxed) != 0; }

  /// `Pod` has a member `id` of type PodId; each pod at most once. `version`: equal in two calls only when the pods are
  /// the same in the same order; then, and while no pod came or went, the second call costs nothing. 0: unknown.
  template <class Pod>
  void choose(std::span<const Pod> pods, Candidates& out, std::uint64_t version = 0) const {
    const std::uint64_t membership = membership_.load(std::memory_order_acquire);
    if (version != 0 && out.version_ == version && out.membership_ == membership && out.index_ == id_) return;
    start(out);
    for (std::uint32_t i = 0; i < pods.size(); ++i) choose_one(pods[i].id, i, out);
    out.version_ = version;
    out.membership_ = membership;
    out.index_ = id_;
  }

  /// The `limit` candidates with the longest matches, longest first; a draw decides among equals at the cut. `blocks`
  /// is one chain. Costs about log2(blocks) probes for each different length among the matches. \return the probes
  std::size_t lookup(std::span<const std::uint64_t> blocks, const Candidates& candidates, std::size_t limit,
                     std::vector<Match>& out) const;

  /// The longest match of one pod, 0 for none; about log2(blocks) probes.
  [[nodiscard]] std::uint32_t match(PodId pod, std::span<const std::uint64_t> blocks) const;

  /// Notes that the pod was sent the chain `blocks`. What no longer fits is dropped, least recently used first, and
  /// added to `evicted`; so are blocks of this very chain beyond the capacity. A pod that is unknown or was forgotten:
  /// nothing happens. When memory runs out, the rest of the chain is not recorded. `credit`: of the same chain, ends.
  void record(PodId pod, std::span<const std::uint64_t> blocks, ModelNumber model, Evictions& evicted,
              CreditId credit = no_credit) noexcept;
  /// The same before it is known whether the answer comes; record() or take_back() must follow. \return no_credit
  /// when nothing was recorded
  [[nodiscard]] CreditId record_early(PodId pod, std::span<const std::uint64_t> blocks, ModelNumber model,
                                      Evictions& evicted) noexcept;
  /// Removes the blocks that are there for the sake of this credit alone: neither recorded by anybody nor part of
  /// another chain that was recorded early. What its recording evicted does not come back. \return how many
  std::size_t take_back(PodId pod, CreditId credit) noexcept;

  /// Limits the pod's list. One that is longer shrinks with each block that is recorded.
  void set_capacity(PodId pod, std::size_t capacity) noexcept;
  [[nodiscard]] PodFill fill(PodId pod) const noexcept;
  /// Removes the least recently used entries up to and with the block `until`, at most `most` of them. An engine that
  /// lost `until` has lost them too, and what builds on `until` is among them. \return whether some are left to remove
  bool drop_oldest(PodId pod, std::uint64_t until, std::size_t most, Evictions& dropped);

  /// The pod's entries, most recently used first.
  void copy(PodId pod, std::vector<StoredBlock>& out) const;
  /// Puts entries (as copy() gave them) behind those that the pod has, as far as there is room; stops nobody but
  /// recorders of this pod. \return how many
  std::size_t restore(PodId pod, std::span<const StoredBlock> blocks) noexcept;

  /// Entries of all pods that were not forgotten.
  [[nodiscard]] std::size_t entries() const noexcept;
  /// Memory of all structures, entries still to be swept included. Takes every lock in turn.
  [[nodiscard]] std::size_t bytes() const;

 private:
  struct Pod;
  struct Dead;
  struct Probes;
  static constexpr std::size_t segment_size = 256;
  static constexpr std::size_t segment_count = 256;
  using SlotSegment = std::array<std::atomic<std::uint64_t>, segment_size>;

  void start(Candidates& out) const;
  void choose_one(PodId pod, std::uint32_t position, Candidates& out) const {
    const PodNumber number = number_of(pod);
    if (number == no_number || number / 64U >= out.words_.size()) return;
    out.words_[number / 64U] |= std::uint64_t{1} << (number % 64U);
    out.positions_[number] = position;
    ++out.count_;
  }
  static constexpr PodNumber no_number = 0xFFFF;
  [[nodiscard]] PodNumber number_of(PodId pod) const noexcept {
    if (pod.slot >= segment_size * segment_count) return no_number;
    const SlotSegment* segment = slots_[pod.slot / segment_size].load(std::memory_order_acquire);
    if (segment == nullptr) return no_number;
    const std::uint64_t value = (*segment)[pod.slot % segment_size].load(std::memory_order_acquire);
    return value >> 32U == pod.generation && pod.generation != 0 ? static_cast<PodNumber>(value) : no_number;
  }
  [[nodiscard]] Pod& pod_at(PodNumber number) const noexcept;
  [[nodiscard]] std::uint32_t level(std::span<const std::uint64_t> blocks, const Candidates& candidates,
                                    std::size_t found, Probes& probes) const;
  std::size_t write(Pod& pod, std::span<const std::uint64_t> blocks, ModelNumber model, Evictions& evicted) noexcept;
  static void confirm(Pod& pod, std::span<const std::uint64_t> blocks, CreditId credit) noexcept;
  void count(std::size_t before, std::size_t after) noexcept;
  std::size_t refresh(Pod& pod, std::span<const std::uint64_t> blocks, Place& cursor) const;
  void append(Pod& pod, std::span<const std::uint64_t> blocks, std::size_t known, Place cursor, ModelNumber model,
              Evictions& evicted);
  [[nodiscard]] PodNumber take_number();

  BlockTable table_;
  const std::size_t capacity_;
  const std::uint64_t id_;                    ///< no other index of this process has it
  std::atomic<std::uint64_t> membership_{1};  ///< grows when a pod comes or goes
  /// By PodId::slot: generation in the upper half, pod number in the lower. Segments stay until the end.
  std::array<std::atomic<SlotSegment*>, segment_count> slots_{};
  std::array<std::atomic<Pod*>, segment_count> pods_{};  ///< arrays of segment_size, by pod number
  std::atomic<std::uint32_t> numbers_{0};                ///< pod numbers ever handed out
  mutable std::mutex control_;                           ///< numbers, segments and the list of the dead
  std::vector<PodNumber> unused_numbers_;
  std::vector<std::unique_ptr<Dead>> graveyard_;
  std::mutex sweeping_;
  std::atomic<std::size_t> dead_{0};
  std::atomic<std::int64_t> entries_{0};
};

}  // namespace warmroute::prefix
