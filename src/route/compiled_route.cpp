#include "route/compiled_route.hpp"

#include <algorithm>
#include <utility>

namespace warmroute::route {
namespace {

bool is_host(std::string_view name) noexcept {
  constexpr std::string_view host = "host";
  return std::equal(name.begin(), name.end(), host.begin(), host.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

}  // namespace

CompiledRule::CompiledRule(std::uint32_t index, const model::Rule& rule, const std::string& ns,
                           const model::Snapshot& snapshot, const Intern& intern)
    : index_(index) {
  if (rule.match) add_match(*rule.match, intern);
  add_targets(rule, ns, snapshot);
}

void CompiledRule::add_match(const model::ModelMatch& match, const Intern& intern) {
  const auto matcher = [&](const model::StringMatch& spec) {
    return StringMatcher(spec, StringMatcher::needs_regex(spec) ? intern(*spec.regex) : nullptr);
  };
  for (const auto& [name, spec] : match.headers) {
    if (!spec)
      never_ = true;
    else
      headers_.push_back({name, matcher(*spec), is_host(name)});
  }
  if (match.uri) uri_ = matcher(*match.uri);
  if (match.body_model) body_model_ = *match.body_model;
}

void CompiledRule::add_targets(const model::Rule& rule, const std::string& ns, const model::Snapshot& snapshot) {
  std::size_t weighted = 0;
  for (const auto& spec : rule.targets) weighted += spec && spec->weight ? 1U : 0U;
  const bool all_weighted = weighted == rule.targets.size();
  bool drawable = weighted == 0 || all_weighted;
  for (const auto& spec : rule.targets) {
    if (!spec) {
      drawable = false;
      continue;
    }
    CompiledTarget target;
    target.has_one_backend = spec->model_server_name.empty() != spec->external_provider_name.empty();
    target.provider = spec->external_provider_name;
    if (!spec->model_server_name.empty()) {
      target.key = ns + "/" + spec->model_server_name;
      target.server = snapshot.server(target.key);
    }
    total_weight_ += all_weighted ? static_cast<std::uint64_t>(std::max(*spec->weight, 0)) : 1;
    target.weight_end = total_weight_;
    targets_.push_back(std::move(target));
  }
  if (!drawable) total_weight_ = 0;  // the targets stay: they say whether the route is listed
}

bool CompiledRule::matches(const Query& query) const {
  if (never_) return false;
  if (body_model_ && *body_model_ != query.model) return false;
  if (uri_ && !uri_->matches(query.path)) return false;
  return std::all_of(headers_.begin(), headers_.end(), [&](const Header& header) {
    const bool visible = query.headers != nullptr && !header.is_host;
    return header.value.matches(visible ? query.headers->first(header.name) : std::string_view{});
  });
}

const CompiledTarget* CompiledRule::draw(const std::function<std::uint64_t()>& random) const {
  if (total_weight_ == 0) return nullptr;
  // A single target needs no draw: nearly every route. The bias of the remainder is below 2^-27.
  const std::uint64_t drawn = targets_.size() == 1 ? 0 : random() % total_weight_;
  const auto it = std::find_if(targets_.begin(), targets_.end(),
                               [&](const CompiledTarget& target) { return drawn < target.weight_end; });
  return it != targets_.end() && it->has_one_backend ? &*it : nullptr;
}

CompiledRoute::CompiledRoute(std::shared_ptr<const model::ModelRoute> spec, const model::Snapshot& snapshot,
                             const CompiledRule::Intern& intern)
    : route(std::move(spec)), key(route->meta.key()) {
  for (std::uint32_t i = 0; i < route->rules.size(); ++i)
    if (route->rules[i]) rules.emplace_back(i, *route->rules[i], route->meta.ns, snapshot, intern);
}

}  // namespace warmroute::route
