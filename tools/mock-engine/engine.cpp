#include "engine.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "text.hpp"

namespace warmroute::mock {

Slot::Slot(Engine& engine, std::function<void()> wake) : engine_(engine), wake_(std::move(wake)) {
  engine_.enter(*this);
}
Slot::~Slot() { engine_.leave(*this); }

Engine::Engine(Options options)
    : options_(std::move(options)),
      start_time_(std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()) {
  for (std::size_t i = 0; i < options_.ranks; ++i) ranks_.emplace_back(options_.cache_blocks);
}

bool Engine::serves(std::string_view model) const {
  return std::find(options_.models.begin(), options_.models.end(), model) != options_.models.end() ||
         std::find(options_.loras.begin(), options_.loras.end(), model) != options_.loras.end();
}

Reply Engine::list_models() const {
  Reply reply;
  reply.body = R"({"object":"list","data":[)";
  const auto add = [&](const std::string& id, const std::string& parent) {
    if (reply.body.back() == '}') reply.body += ',';
    reply.body += fmt::format(
        R"({{"id":{},"object":"model","created":{},"owned_by":"{}","root":{},"parent":{},"max_model_len":131072}})",
        json_string(id), static_cast<std::int64_t>(start_time_), options_.dialect == Dialect::vllm ? "vllm" : "sglang",
        json_string(parent.empty() ? id : "/adapters/" + id), parent.empty() ? "null" : json_string(parent));
  };
  for (const auto& model : options_.models) add(model, "");
  for (const auto& lora : options_.loras) add(lora, options_.models.front());
  reply.body += "]}";
  return reply;
}

namespace {
std::string adapter_name(std::string_view body) {
  simdjson::dom::parser parser;
  const simdjson::padded_string json(body);
  std::string_view name;
  if (parser.parse(json)["lora_name"].get(name)) return {};
  return std::string(name);
}
Reply plain(std::string text) {
  Reply reply;
  reply.type = "text/plain; charset=utf-8";
  reply.body = std::move(text);
  return reply;
}
}  // namespace

Reply Engine::load_adapter(std::string_view body) {
  const std::string name = adapter_name(body);
  if (name.empty()) return error_reply(400, "'lora_name' must be provided.");
  if (serves(name)) return error_reply(400, "The lora adapter '" + name + "' has already been loaded.");
  options_.loras.push_back(name);
  return plain("Success: LoRA adapter '" + name + "' added successfully.");
}

Reply Engine::unload_adapter(std::string_view body) {
  const std::string name = adapter_name(body);
  if (name.empty()) return error_reply(400, "'lora_name' must be provided.");
  if (std::erase(options_.loras, name) == 0)
    return error_reply(404, "The lora adapter '" + name + "' cannot be found.");
  return plain("Success: LoRA adapter '" + name + "' removed successfully.");
}

void Engine::enter(Slot& slot) {
  // The rank with the fewest requests, as the engines' own load balancing between ranks does.
  const auto load = [](const Rank& r) { return r.running.size() + r.waiting.size(); };
  const auto best =
      std::min_element(ranks_.begin(), ranks_.end(), [&](const Rank& a, const Rank& b) { return load(a) < load(b); });
  slot.rank_ = static_cast<std::size_t>(best - ranks_.begin());
  if (best->running.size() < options_.max_batch) {
    best->running.push_back(&slot);
    slot.running_ = true;
  } else {
    best->waiting.push_back(&slot);
  }
}

void Engine::leave(Slot& slot) {
  Rank& rank = ranks_[slot.rank_];
  if (!slot.running_) {
    std::erase(rank.waiting, &slot);
    return;
  }
  std::erase(rank.running, &slot);
  rank.used_blocks -= slot.used_blocks_;
  if (rank.waiting.empty()) return;
  Slot* next = rank.waiting.front();
  rank.waiting.pop_front();
  rank.running.push_back(next);
  next->running_ = true;
  next->wake_();
}

Prefill Engine::prefill(Slot& slot, std::string_view model, const std::vector<std::string>& prompts,
                        Clock::time_point now) {
  Rank& rank = ranks_[slot.rank_];
  Prefill result;
  for (const auto& prompt : prompts) {
    const std::size_t tokens = (prompt.size() + 3) / 4;
    result.prompt_tokens += tokens;
    slot.used_blocks_ += (tokens + options_.block_tokens - 1) / options_.block_tokens;
    if (options_.cache_blocks == 0) continue;
    const auto hashes = block_hashes(model, prompt, options_.block_tokens * 4);
    // At least one token is computed, for its logits.
    const std::size_t reusable = tokens == 0 ? 0 : (tokens - 1) / options_.block_tokens;
    result.cached_tokens += std::min(rank.cache.match(hashes), reusable) * options_.block_tokens;
    rank.cache.insert(hashes);
  }
  rank.used_blocks += slot.used_blocks_;
  counters.prompt_tokens += result.prompt_tokens;
  counters.query_tokens += result.prompt_tokens;
  counters.hit_tokens += result.cached_tokens;
  result.done = now;
  if (options_.prefill_tokens_per_second > 0) {
    const double seconds =
        static_cast<double>(result.prompt_tokens - result.cached_tokens) / options_.prefill_tokens_per_second;
    // Prefills of one rank share its compute: each starts when the one before is done.
    rank.prefill_free = std::max(rank.prefill_free, now) +
                        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    result.done = rank.prefill_free;
  }
  return result;
}

void Engine::keep_blocks(const Slot& slot, std::string_view model, std::string_view text) {
  if (options_.cache_blocks == 0) return;
  ranks_[slot.rank_].cache.insert(block_hashes(model, text, options_.block_tokens * 4));
}

double Engine::running_of(std::size_t rank) const {
  if (!overrides_.running.empty()) return rank < overrides_.running.size() ? overrides_.running[rank] : 0;
  return static_cast<double>(ranks_[rank].running.size());
}
double Engine::waiting_of(std::size_t rank) const {
  if (!overrides_.waiting.empty()) return rank < overrides_.waiting.size() ? overrides_.waiting[rank] : 0;
  return static_cast<double>(ranks_[rank].waiting.size());
}
double Engine::kv_usage_of(std::size_t rank) const {
  if (!overrides_.kv_usage.empty()) return overrides_.kv_usage[std::min(rank, overrides_.kv_usage.size() - 1)];
  const double blocks = static_cast<double>(std::max<std::size_t>(options_.cache_blocks, 1));
  return std::min(1.0, static_cast<double>(ranks_[rank].used_blocks) / blocks);
}

}  // namespace warmroute::mock
