#include "prefix_cache/prefix_cache.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string>

#include "base/characters.hpp"
#include "prefix/block_hash.hpp"
#include "prefix/index.hpp"
#include "prefix_cache/model_names.hpp"
#include "prefix_cache/pod_book.hpp"
#include "prefix_cache/series.hpp"
#include "prefix_cache/settings.hpp"
#include "prefix_cache/snapshot_keeper.hpp"
#include "warmroute/score_math.hpp"

namespace warmroute::plugins {
namespace {

// Removal of pods that left: a thread of its own does it, in steps between which it yields its locks; workers help.
constexpr std::chrono::seconds sweep_period{1};
constexpr std::size_t background_sweep = 1000;
constexpr std::size_t worker_sweep = 64;
constexpr std::size_t worker_drop = 1024;
/// A report without a hit says something only where engines would have cached: some blocks of 16 tokens.
constexpr double least_believed_bytes = 256;

/// A pod, and how much of the prompt it was found to have when the request was scored.
struct Known {
  PodId pod;
  std::uint32_t blocks = 0;
};

struct PromptBlocks final : RequestState {
  std::vector<std::uint64_t> hashes;
  prefix::ModelNumber model = 0;
  double bytes = 0;        ///< of the text that is hashed
  double whole_bytes = 0;  ///< of the prompt, beyond the coverage too
  std::array<Known, 8> known{};
  std::size_t known_count = 0;
  bool more_known = false;  ///< there may be pods with a match beside `known`
  struct Credit {
    PodId pod;
    prefix::CreditId id = prefix::no_credit;
  };
  std::vector<Credit> credits;  ///< of attempts under way, with recordOn other than response

  void remember(PodId pod, std::uint32_t blocks) {
    for (std::size_t i = 0; i < known_count; ++i)
      if (known[i].pod == pod) {
        known[i].blocks = blocks;
        return;
      }
    if (known_count == known.size()) {
      more_known = true;
      return;
    }
    known[known_count++] = {pod, blocks};
  }
  prefix::CreditId take_credit(PodId pod) noexcept {
    for (auto& credit : credits)
      if (credit.pod == pod) return std::exchange(credit.id, prefix::no_credit);
    return prefix::no_credit;
  }
};

/// Bytes of a whole prompt of which `seen` was rendered. The estimate counts characters to the end.
double whole_prompt_bytes(std::string_view seen, std::int64_t token_estimate, std::size_t limit) {
  const auto bytes = static_cast<double>(seen.size());
  if (seen.size() < limit) return bytes;
  const auto characters = base::count_characters(seen);
  return std::max(bytes, 4.0 * static_cast<double>(token_estimate) * bytes /
                             static_cast<double>(std::max<std::int64_t>(characters, 1)));
}

/// What the plugin and the hooks it leaves with the host use together; hooks may outlive the plugin.
struct Core {
  explicit Core(const PrefixCacheSettings& of) : settings(of), index(of.capacity) {}
  const PrefixCacheSettings settings;
  prefix::Index index;
  ModelNames models;
  PodBook book;
  std::unique_ptr<SnapshotKeeper> snapshots;
  std::uint64_t seed = 0;

  void sweep() noexcept {
    while (index.sweep(background_sweep)) {
    }
  }
};

class PrefixCache final : public ScorePlugin, public PostRequest, public KnowsPrefix {
 public:
  PrefixCache(const PrefixCacheSettings& settings, Host& host)
      : settings_(settings), core_(std::make_shared<Core>(settings)), series_(host) {
    if (!settings_.snapshot.empty()) core_->snapshots = std::make_unique<SnapshotKeeper>(settings_, host);
    core_->seed = core_->snapshots ? core_->snapshots->seed().value_or(host.hash_seed()) : host.hash_seed();
    watch_pods(host);
    host.gauge("prefix_cache_entries", "Block entries stored for all pods.",
               [core = core_] { return static_cast<double>(core->index.entries()); });
    host.in_background(sweep_period, [core = core_] { core->sweep(); });
    host.gauge("warmroute_prefix_cache_bytes", "Memory of the prefix index.",
               [core = core_] { return static_cast<double>(core->index.bytes()); });
    if (!core_->snapshots) return;
    host.gauge("warmroute_prefix_cache_snapshot_age_seconds",
               "Since the snapshot on disk was written; 0: there is none.",
               [core = core_] { return core->snapshots->age_seconds(); });
    host.in_background(settings_.snapshot_period,
                       [core = core_] { core->snapshots->write(core->index, core->models, core->seed); });
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "prefix-cache"; }
  [[nodiscard]] std::unique_ptr<RequestState> new_state() const override { return std::make_unique<PromptBlocks>(); }
  [[nodiscard]] std::size_t prompt_bytes_wanted() const noexcept override {
    std::size_t bytes = 0;
    const bool too_many = __builtin_mul_overflow(settings_.block_bytes, settings_.max_blocks, &bytes);
    return too_many ? std::numeric_limits<std::size_t>::max() : bytes;
  }
  [[nodiscard]] bool follows_attempts() const noexcept override { return settings_.record_on != RecordOn::response; }

  bool score(const RequestView& request, RequestState* state, std::span<const PodView> pods,
             std::span<std::int64_t> scores) const override;
  [[nodiscard]] Value explain(const RequestView& request, std::span<const PodView> pods) const override;
  void attempt_started(const RequestView&, RequestState* state, PodId pod) noexcept override {
    if (settings_.record_on == RecordOn::dispatch) record_early(static_cast<PromptBlocks&>(*state), pod);
  }
  void first_byte(const RequestView&, RequestState* state, PodId pod) noexcept override {
    if (settings_.record_on == RecordOn::first_byte) record_early(static_cast<PromptBlocks&>(*state), pod);
  }
  [[nodiscard]] std::size_t held_bytes(const RequestView&, RequestState* state, PodId pod) const override {
    const auto& blocks = static_cast<const PromptBlocks&>(*state);
    if (blocks.hashes.empty()) return 0;
    return static_cast<std::size_t>(matched_bytes(core_->index.match(pod, blocks.hashes), blocks));
  }
  void attempt_done(const RequestView& request, RequestState* state, PodId pod,
                    const Outcome& outcome) noexcept override;

 private:
  [[nodiscard]] bool keeps_book() const noexcept { return settings_.auto_capacity || settings_.learn_from_usage; }
  void watch_pods(Host& host);
  void hash(const RequestView& request, PromptBlocks& blocks) const;
  [[nodiscard]] std::int64_t score_of(std::uint32_t matched, std::size_t hashed) const noexcept {
    // In this order: 29 of 100 is 28.
    return truncated_score(static_cast<double>(matched) / static_cast<double>(hashed) * 100);
  }
  [[nodiscard]] double matched_bytes(std::uint32_t blocks, const PromptBlocks& of) const noexcept {
    return std::min(of.bytes, static_cast<double>(blocks) * static_cast<double>(settings_.block_bytes));
  }
  [[nodiscard]] std::uint32_t believed(const PromptBlocks& blocks, PodId pod) const;
  void record_early(PromptBlocks& blocks, PodId pod) noexcept;
  void count_evictions(const prefix::Evictions& evicted) {
    for (const auto& [model, entries] : evicted)
      series_.evictions->add(core_->models.name(model), static_cast<double>(entries));
  }
  void served(const RequestView& request, PromptBlocks& blocks, PodId pod, const Outcome& outcome);
  void learn(PromptBlocks& blocks, PodId pod, const Outcome& outcome, double expected_bytes);
  void drop_doubted(PodId pod);

  const PrefixCacheSettings settings_;
  const std::shared_ptr<Core> core_;
  const PrefixCacheSeries series_;
};

void PrefixCache::watch_pods(Host& host) {
  host.on_pod_joined([core = core_, book = keeps_book()](PodId pod) {
    core->index.add(pod);
    if (book) core->book.join(pod);
  });
  host.on_pod_left([core = core_, book = keeps_book()](PodId pod) {
    if (core->snapshots) core->snapshots->pod_left(pod);
    if (book) core->book.leave(pod);
    core->index.forget(pod);
  });
  if (!settings_.auto_capacity && !core_->snapshots) return;
  host.on_engine_facts([core = core_, &host](PodId pod, const EngineFacts& facts) {
    if (core->settings.auto_capacity) core->book.set_kv_tokens(pod, facts.kv_tokens);
    if (!core->snapshots) return;
    const auto restored = core->snapshots->pod_known(pod, facts.incarnation, core->index, core->models);
    if (restored > 0)
      host.info("prefix-cache: restored " + std::to_string(restored) + " entries of " + facts.incarnation);
  });
}

void PrefixCache::hash(const RequestView& request, PromptBlocks& blocks) const {
  prefix::ChainRoot root{request.model, request.cache_salt, {}};
  if (settings_.include_tools) root.tools = request.tools;
  const std::uint64_t start = prefix::chain_start(core_->seed, root);
  prefix::hash_blocks(start, request.prompt, request.media, settings_.block_bytes, settings_.max_blocks, blocks.hashes);
  blocks.model = core_->models.number(request.model);
  const std::size_t limit = prompt_bytes_wanted();
  blocks.bytes = static_cast<double>(std::min(request.prompt.size(), limit));
  blocks.whole_bytes = whole_prompt_bytes(request.prompt, request.token_estimate, limit);
}

bool PrefixCache::score(const RequestView& request, RequestState* state, std::span<const PodView> pods,
                        std::span<std::int64_t> scores) const {
  // One for each of a few ModelServers: naming a thousand pods costs more than finding the match.
  thread_local std::array<prefix::Candidates, 16> named;
  thread_local std::vector<prefix::Match> matches;
  if (request.prompt.empty()) return false;
  auto& blocks = static_cast<PromptBlocks&>(*state);
  if (blocks.hashes.empty()) {
    hash(request, blocks);
    series_.requests->add(request.model, 1);
  }
  auto& candidates = named[request.pods_version % named.size()];
  core_->index.choose(pods, candidates, request.pods_version);
  core_->index.lookup(blocks.hashes, candidates, settings_.top_k, matches);
  const auto total = static_cast<double>(blocks.hashes.size());
  for (const auto& match : matches) {
    scores[match.candidate] = score_of(match.blocks, blocks.hashes.size());
    blocks.remember(pods[match.candidate].id, match.blocks);
  }
  blocks.more_known = blocks.more_known || matches.size() == settings_.top_k;
  series_.match_ratio->observe(request.model,
                               matches.empty() ? 0 : static_cast<double>(matches.front().blocks) / total);
  return true;
}

/// How many blocks the pod was believed to have when the request was scored.
std::uint32_t PrefixCache::believed(const PromptBlocks& blocks, PodId pod) const {
  for (std::size_t i = 0; i < blocks.known_count; ++i)
    if (blocks.known[i].pod == pod) return blocks.known[i].blocks;
  // Beyond the topK limit: what it has now will do, unless this very request was recorded early.
  return blocks.more_known && settings_.record_on == RecordOn::response ? core_->index.match(pod, blocks.hashes) : 0;
}

void PrefixCache::record_early(PromptBlocks& blocks, PodId pod) noexcept try {
  thread_local prefix::Evictions evicted;
  if (blocks.hashes.empty() || (settings_.learn_from_usage && !core_->book.trusted(pod))) return;
  evicted.clear();
  blocks.credits.push_back({pod, prefix::no_credit});
  blocks.credits.back().id = core_->index.record_early(pod, blocks.hashes, blocks.model, evicted);
  count_evictions(evicted);
} catch (const std::bad_alloc&) {
  // Recorded when the answer is complete, like without the option.
}

void PrefixCache::attempt_done(const RequestView& request, RequestState* state, PodId pod,
                               const Outcome& outcome) noexcept try {
  auto& blocks = static_cast<PromptBlocks&>(*state);
  if (blocks.hashes.empty()) return;  // not scored
  if (outcome.served()) {
    served(request, blocks, pod, outcome);
  } else if (const auto credit = blocks.take_credit(pod); credit != prefix::no_credit) {
    (void)core_->index.take_back(pod, credit);
  }
  if (core_->index.needs_sweep()) (void)core_->index.sweep(worker_sweep);  // the next request goes on
} catch (const std::bad_alloc&) {
  // One prompt less is known.
}

void PrefixCache::served(const RequestView& request, PromptBlocks& blocks, PodId pod, const Outcome& outcome) {
  thread_local prefix::Evictions evicted;
  const double expected = matched_bytes(believed(blocks, pod), blocks);
  if (expected > 0) {
    series_.hits->add(request.model, 1);
    series_.matched_bytes->add(request.model, expected);
  }
  if (outcome.prompt_tokens > 0 && outcome.cached_tokens >= 0) {
    series_.predicted->observe(request.model, std::min(1.0, expected / std::max(blocks.whole_bytes, 1.0)));
    series_.actual->observe(request.model, std::min(1.0, static_cast<double>(outcome.cached_tokens) /
                                                             static_cast<double>(outcome.prompt_tokens)));
  }
  if (keeps_book()) learn(blocks, pod, outcome, expected);
  const auto credit = blocks.take_credit(pod);
  if (settings_.learn_from_usage && !core_->book.trusted(pod)) {
    (void)core_->index.take_back(pod, credit);
    return;
  }
  evicted.clear();
  core_->index.record(pod, blocks.hashes, blocks.model, evicted, credit);
  count_evictions(evicted);
}

/// What the usage of a complete answer says about the engine.
void PrefixCache::learn(PromptBlocks& blocks, PodId pod, const Outcome& outcome, double expected_bytes) {
  if (settings_.auto_capacity && outcome.prompt_tokens > 0) {
    // Whole blocks, and only of the coverage: the bytes that the index will spend on what these tokens cost the engine.
    const auto bytes = static_cast<double>(blocks.hashes.size() * settings_.block_bytes);
    core_->models.learn(blocks.model, bytes, static_cast<double>(outcome.prompt_tokens));
    const PodBook::Sizing sizing{settings_.block_bytes, core_->models.bytes_per_token(blocks.model)};
    if (const auto capacity = core_->book.capacity(pod, sizing)) core_->index.set_capacity(pod, *capacity);
  }
  if (!settings_.learn_from_usage) return;
  if (core_->book.report(pod, outcome.cached_tokens, expected_bytes >= least_believed_bytes))
    core_->book.set_doubt(pod, {blocks.hashes.front(), core_->index.fill(pod).entries});
  drop_doubted(pod);
}

/// A step of what a pod's reports gave reason to drop; the pod's next answers go on.
void PrefixCache::drop_doubted(PodId pod) {
  auto doubt = core_->book.doubt(pod);
  if (doubt.left == 0) return;
  prefix::Evictions dropped;
  const bool more = core_->index.drop_oldest(pod, doubt.until, std::min(doubt.left, worker_drop), dropped);
  for (const auto& [model, entries] : dropped)
    series_.disbelieved->add(core_->models.name(model), static_cast<double>(entries));
  doubt.left = more ? doubt.left - std::min(doubt.left, worker_drop) : 0;
  core_->book.set_doubt(pod, doubt);
}

Value PrefixCache::explain(const RequestView& request, std::span<const PodView> pods) const {
  PromptBlocks blocks;
  if (!request.prompt.empty()) hash(request, blocks);
  prefix::Candidates candidates;
  std::vector<prefix::Match> matches;
  core_->index.choose(pods, candidates);
  core_->index.lookup(blocks.hashes, candidates, settings_.top_k, matches);
  const auto whole = [](double number) { return Value{static_cast<std::int64_t>(number)}; };
  Value::List lines;
  for (std::uint32_t i = 0; i < pods.size(); ++i) {
    const auto matched = core_->index.match(pods[i].id, blocks.hashes);
    const auto place =
        std::find_if(matches.begin(), matches.end(), [&](const auto& match) { return match.candidate == i; });
    const auto fill = core_->index.fill(pods[i].id);
    Value::Map line;
    line.emplace_back("pod", Value{std::string(pods[i].name)});
    line.emplace_back("score", Value{place == matches.end() ? 0 : score_of(place->blocks, blocks.hashes.size())});
    line.emplace_back("matchedBlocks", whole(matched));
    line.emplace_back("matchedBytes", whole(matched_bytes(matched, blocks)));
    line.emplace_back("topKPosition",
                      place == matches.end() ? Value{} : whole(static_cast<double>(place - matches.begin() + 1)));
    line.emplace_back("entries", whole(static_cast<double>(fill.entries)));
    line.emplace_back("capacity", whole(static_cast<double>(fill.capacity)));
    lines.push_back(Value{std::move(line)});
  }
  Value::Map said;
  said.emplace_back("scored", Value{!request.prompt.empty()});
  said.emplace_back("hashedBlocks", whole(static_cast<double>(blocks.hashes.size())));
  said.emplace_back("hashedBytes", whole(blocks.bytes));
  said.emplace_back("promptBytes", whole(blocks.whole_bytes));
  said.emplace_back("blockSizeToHash", whole(static_cast<double>(settings_.block_bytes)));
  said.emplace_back("maxBlocksToMatch", whole(static_cast<double>(settings_.max_blocks)));
  said.emplace_back("topKMatches", whole(static_cast<double>(settings_.top_k)));
  said.emplace_back("pods", Value{std::move(lines)});
  return Value{std::move(said)};
}

}  // namespace

Result<std::shared_ptr<Plugin>> make_prefix_cache(const Args& args, Host& host) {
  const PrefixCacheSettings settings = read_prefix_cache_settings(args, host);
  // What an entry costs at most, measured by bench_prefix_index.
  constexpr std::size_t bytes_per_entry = 40;
  host.info("prefix-cache: blocks of " + std::to_string(settings.block_bytes) + " bytes, the first " +
            std::to_string(settings.max_blocks) + " of a prompt; at most " + std::to_string(settings.capacity) +
            " entries a pod" + (settings.auto_capacity ? " until its engine's cache size is known" : "") + ", about " +
            std::to_string(settings.capacity * bytes_per_entry / 1024 + 1) + " KiB; a match counts for " +
            std::to_string(settings.top_k) + " pods");
  return std::shared_ptr<Plugin>(std::make_shared<PrefixCache>(settings, host));
}

}  // namespace warmroute::plugins
