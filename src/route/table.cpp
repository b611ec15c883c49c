#include "route/table.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "route/compiled_route.hpp"

namespace warmroute::route {
namespace {

using Warn = std::function<void(std::string_view)>;

class SnapshotTable final : public Table {
 public:
  SnapshotTable(std::shared_ptr<const model::Snapshot> snapshot, const SnapshotTable* previous, const Warn& warn);

  [[nodiscard]] bool declares(std::string_view model) const override { return by_name_.contains(model); }
  [[nodiscard]] std::string_view declared_name(std::string_view model) const override;
  [[nodiscard]] Match match(const Query& query, const std::function<std::uint64_t()>& random) const override;
  [[nodiscard]] const std::vector<std::string>& listed_models() const override { return listed_; }
  [[nodiscard]] const std::shared_ptr<const model::Snapshot>& snapshot() const override { return snapshot_; }

 private:
  /// Indexes into routes_, in the snapshot's order. Adapters count only where `base` is empty.
  struct Candidates {
    std::vector<std::uint32_t> base, lora;
  };
  void index_names();
  void list_models();
  void log_unsupported(const SnapshotTable* previous, const Warn& warn);
  [[nodiscard]] Match resolve(const CompiledRoute& route, const CompiledTarget& target, bool lora) const;

  std::shared_ptr<const model::Snapshot> snapshot_;
  RegexMap regexes_;
  std::vector<CompiledRoute> routes_;
  std::unordered_map<std::string_view, Candidates> by_name_;  ///< keys live in the snapshot's routes
  std::vector<std::string> listed_;
  std::set<std::string, std::less<>> notices_;  ///< logged by this table or one before, and still true
};

SnapshotTable::SnapshotTable(std::shared_ptr<const model::Snapshot> snapshot, const SnapshotTable* previous,
                             const Warn& warn)
    : snapshot_(std::move(snapshot)) {
  const RegexMap* known = previous != nullptr ? &previous->regexes_ : nullptr;
  const CompiledRule::Intern intern = [&](const std::string& pattern) {
    return intern_regex(pattern, regexes_, known, warn);
  };
  routes_.reserve(snapshot_->routes.size());
  for (const auto& route : snapshot_->routes) routes_.emplace_back(route, *snapshot_, intern);
  index_names();
  list_models();
  log_unsupported(previous, warn);
}

void SnapshotTable::index_names() {
  for (std::uint32_t i = 0; i < routes_.size(); ++i) {
    const auto& route = *routes_[i].route;
    if (!route.model_name.empty()) by_name_[route.model_name].base.push_back(i);
    for (const auto& adapter : route.lora_adapters) {
      if (adapter.empty()) continue;
      auto& lora = by_name_[adapter].lora;
      if (lora.empty() || lora.back() != i) lora.push_back(i);  // an adapter listed twice in one route
    }
  }
}

void SnapshotTable::list_models() {
  const auto usable = [&](std::uint32_t index) {
    for (const auto& rule : routes_[index].rules)
      for (const auto& target : rule.targets())
        if (target.server) return true;
    return false;
  };
  for (const auto& [name, candidates] : by_name_) {
    const auto& indexes = candidates.base.empty() ? candidates.lora : candidates.base;
    if (std::any_of(indexes.begin(), indexes.end(), usable)) listed_.emplace_back(name);
  }
  std::sort(listed_.begin(), listed_.end());
}

void SnapshotTable::log_unsupported(const SnapshotTable* previous, const Warn& warn) {
  const auto notice = [&](std::string text) {
    const bool known = previous != nullptr && previous->notices_.contains(text);
    if (notices_.insert(text).second && !known && warn) warn(text);
  };
  for (const auto& route : routes_) {
    if (route.route->rate_limit)
      notice("ModelRoute " + route.key + " uses rateLimit, which is not supported; it answers 503");
    if (!route.route->parent_refs.empty())
      notice("ModelRoute " + route.key + " has parentRefs; it is skipped, as Gateways are not served");
    for (const auto& rule : route.rules)
      for (const auto& target : rule.targets())
        if (!target.provider.empty())
          notice("ModelRoute " + route.key + " uses externalModelProviderName, which is not supported; it answers 503");
  }
}

std::string_view SnapshotTable::declared_name(std::string_view model) const {
  const auto it = by_name_.find(model);
  return it == by_name_.end() ? std::string_view{} : it->first;
}

Match SnapshotTable::resolve(const CompiledRoute& route, const CompiledTarget& target, bool lora) const {
  Match match;
  match.route = route.route;
  match.route_key = route.key;
  match.server_key = target.key;
  match.lora = lora;
  const auto refuse = [&match](Match::Kind kind, std::string detail) {
    match.kind = kind;
    match.detail = std::move(detail);
    return match;
  };
  // First what protects the engines: a limit that is not enforced must not be passed over for any other reason.
  if (route.route->rate_limit) return refuse(Match::Kind::not_supported, "ModelRoute " + route.key + " uses rateLimit");
  if (!target.provider.empty())
    return refuse(Match::Kind::not_supported,
                  "ModelRoute " + route.key + " uses externalModelProviderName " + std::string(target.provider));
  if (!target.server) return refuse(Match::Kind::server_missing, target.key);
  match.kind = Match::Kind::matched;
  match.server = target.server;
  return match;
}

Match SnapshotTable::match(const Query& query, const std::function<std::uint64_t()>& random) const {
  const auto it = by_name_.find(query.model);
  if (it == by_name_.end()) return {};
  const bool lora = it->second.base.empty();
  for (const auto index : lora ? it->second.lora : it->second.base) {
    const auto& route = routes_[index];
    if (!route.route->parent_refs.empty()) continue;
    const auto rule = std::find_if(route.rules.begin(), route.rules.end(),
                                   [&](const CompiledRule& candidate) { return candidate.matches(query); });
    if (rule == route.rules.end()) continue;
    const CompiledTarget* target = rule->draw(random);
    if (target == nullptr) continue;
    Match match = resolve(route, *target, lora);
    match.rule_index = rule->index();
    return match;
  }
  return {};
}

}  // namespace

std::shared_ptr<const Table> Table::build(std::shared_ptr<const model::Snapshot> snapshot, const Table* previous,
                                          const std::function<void(std::string_view)>& log_warning) {
  return std::make_shared<const SnapshotTable>(std::move(snapshot), dynamic_cast<const SnapshotTable*>(previous),
                                               log_warning);
}

}  // namespace warmroute::route
