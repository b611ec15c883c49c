#include "prefix_cache/prefix_cache.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>

#include "prefix/block_hash.hpp"
#include "prefix/index.hpp"
#include "warmroute/score_math.hpp"

namespace warmroute::plugins {
namespace {

constexpr std::array<double, 9> ratio_buckets{0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1};
constexpr std::array<std::string_view, 5> known_args{"blockSizeToHash", "maxBlocksToMatch", "maxHashCacheSize",
                                                     "topKMatches", "includeTools"};
// Removal: steps are short enough for a worker, the hook on the control thread does a whole pod of usual size.
constexpr std::size_t worker_sweep = 64;
constexpr std::size_t control_sweep_step = 2000;
constexpr std::size_t control_sweep_steps = 50;

struct Settings {
  std::size_t block_bytes = 64;
  std::size_t max_blocks = 128;
  std::size_t capacity = 50000;
  std::size_t top_k = 5;
  bool include_tools = true;
};

/// The four old arguments: one of a wrong type drops all of them. \return why, or nothing
std::optional<std::string> read_sizes(const Args& args, Settings& settings) {
  if (!args.readable()) return "the args block is " + std::string(args.root().type_name());
  Settings read = settings;
  const std::array<std::pair<std::string_view, std::size_t*>, 4> sizes{{{known_args[0], &read.block_bytes},
                                                                        {known_args[1], &read.max_blocks},
                                                                        {known_args[2], &read.capacity},
                                                                        {known_args[3], &read.top_k}}};
  for (const auto& [name, target] : sizes) {
    const auto value = args.integer(name);
    if (!value) return value.error().detail;
    if (value->value_or(0) > 0) *target = static_cast<std::size_t>(**value);  // zero and less mean the default
  }
  settings = read;
  return std::nullopt;
}

Settings read_settings(const Args& args, Host& host) {
  Settings settings;
  warn_unknown_args("prefix-cache", args, known_args, host);
  if (const auto wrong = read_sizes(args, settings)) {
    host.error("Failed to unmarshal PrefixCacheArgs, using default values");
    host.error("prefix-cache: " + *wrong);
  }
  if (const auto tools = args.boolean(known_args[4])) {
    settings.include_tools = tools->value_or(true);
  } else {
    host.warning("prefix-cache: " + tools.error().detail + "; using the default, true");
  }
  if (settings.capacity > prefix::Index::max_capacity) {
    settings.capacity = prefix::Index::max_capacity;
    host.warning("prefix-cache: maxHashCacheSize is limited to " + std::to_string(settings.capacity));
  }
  return settings;
}

/// Small numbers for model names, which come from configuration only, so there are few.
class ModelNames {
 public:
  prefix::ModelNumber number(std::string_view name) {
    {
      const std::shared_lock lock(mutex_);
      const auto found = numbers_.find(name);
      if (found != numbers_.end()) return found->second;
    }
    const std::unique_lock lock(mutex_);
    if (names_.size() > std::numeric_limits<prefix::ModelNumber>::max()) return 0;
    const auto next = static_cast<prefix::ModelNumber>(names_.size());
    const auto [entry, added] = numbers_.emplace(std::string(name), next);
    if (added) names_.push_back(&entry->first);
    return entry->second;
  }
  [[nodiscard]] std::string_view name(prefix::ModelNumber number) const {
    const std::shared_lock lock(mutex_);
    return *names_[number];
  }

 private:
  mutable std::shared_mutex mutex_;
  std::map<std::string, prefix::ModelNumber, std::less<>> numbers_;
  std::vector<const std::string*> names_;  ///< keys of numbers_, which stay where they are
};

struct PromptBlocks final : RequestState {
  std::vector<std::uint64_t> hashes;
  prefix::ModelNumber model = 0;
};

class PrefixCache final : public ScorePlugin, public PostRequest {
 public:
  PrefixCache(const Settings& settings, Host& host)
      : settings_(settings),
        seed_(host.hash_seed()),
        index_(std::make_shared<prefix::Index>(settings.capacity)),
        match_ratio_(host.histogram_by_model("prefix_cache_match_ratio",
                                             "Share of the prompt's blocks matched by the best pod, 0 for a miss.",
                                             ratio_buckets)),
        evictions_(host.counter_by_model("prefix_cache_evictions_total",
                                         "Block entries dropped because a pod's list was full.")) {
    // The hooks outlive the plugin, so they own the index too.
    host.gauge("prefix_cache_entries", "Block entries stored for all pods.", [index = index_] {
      sweep(*index);
      return static_cast<double>(index->entries());
    });
    host.on_pod_joined([index = index_](PodId pod) { index->add(pod); });
    host.on_pod_left([index = index_](PodId pod) {
      index->forget(pod);
      sweep(*index);
    });
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "prefix-cache"; }
  [[nodiscard]] std::unique_ptr<RequestState> new_state() const override { return std::make_unique<PromptBlocks>(); }
  [[nodiscard]] std::size_t prompt_bytes_wanted() const noexcept override {
    std::size_t bytes = 0;
    const bool too_many = __builtin_mul_overflow(settings_.block_bytes, settings_.max_blocks, &bytes);
    return too_many ? std::numeric_limits<std::size_t>::max() : bytes;
  }

  bool score(const RequestView& request, RequestState* state, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override {
    thread_local prefix::Candidates candidates;
    thread_local std::vector<prefix::Match> matches;
    if (request.prompt.empty()) return false;
    auto& blocks = static_cast<PromptBlocks&>(*state);
    if (blocks.hashes.empty()) hash(request, blocks);
    index_->choose(pods, candidates);
    index_->lookup(blocks.hashes, candidates, settings_.top_k, matches);
    const auto total = static_cast<double>(blocks.hashes.size());
    for (const auto& match : matches)  // in this order: 29 of 100 is 28
      scores[match.candidate] = truncated_score(static_cast<double>(match.blocks) / total * 100);
    match_ratio_->observe(request.model, matches.empty() ? 0 : static_cast<double>(matches.front().blocks) / total);
    return true;
  }

  void attempt_done(const RequestView&, RequestState* state, PodId pod, const Outcome& outcome) noexcept override {
    thread_local prefix::Evictions evicted;
    const auto& blocks = static_cast<const PromptBlocks&>(*state);
    // A request that was not scored has no blocks.
    if (outcome.served() && !blocks.hashes.empty()) {
      evicted.clear();
      index_->record(pod, blocks.hashes, blocks.model, evicted);
      for (const auto& [model, entries] : evicted) evictions_->add(models_.name(model), static_cast<double>(entries));
    }
    if (index_->needs_sweep()) (void)index_->sweep(worker_sweep);  // the next request goes on
  }

 private:
  static void sweep(prefix::Index& index) noexcept {
    for (std::size_t step = 0; step < control_sweep_steps && index.needs_sweep(); ++step)
      if (!index.sweep(control_sweep_step)) return;
  }

  void hash(const RequestView& request, PromptBlocks& blocks) const {
    prefix::ChainRoot root{request.model, request.cache_salt, {}};
    if (settings_.include_tools) root.tools = request.tools;
    const std::uint64_t start = prefix::chain_start(seed_, root);
    prefix::hash_blocks(start, request.prompt, request.media, settings_.block_bytes, settings_.max_blocks,
                        blocks.hashes);
    blocks.model = models_.number(request.model);
  }

  const Settings settings_;
  const std::uint64_t seed_;
  const std::shared_ptr<prefix::Index> index_;
  const std::shared_ptr<HistogramByModel> match_ratio_;
  const std::shared_ptr<CounterByModel> evictions_;
  mutable ModelNames models_;
};

}  // namespace

Result<std::shared_ptr<Plugin>> make_prefix_cache(const Args& args, Host& host) {
  const Settings settings = read_settings(args, host);
  // What an entry costs at most, measured by bench_prefix_index.
  constexpr std::size_t bytes_per_entry = 40;
  host.info("prefix-cache: blocks of " + std::to_string(settings.block_bytes) + " bytes, the first " +
            std::to_string(settings.max_blocks) + " of a prompt; at most " + std::to_string(settings.capacity) +
            " entries a pod, about " + std::to_string(settings.capacity * bytes_per_entry / 1024 + 1) +
            " KiB; a match counts for " + std::to_string(settings.top_k) + " pods");
  return std::shared_ptr<Plugin>(std::make_shared<PrefixCache>(settings, host));
}

}  // namespace warmroute::plugins
