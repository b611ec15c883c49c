// ModelRoute: spec, schema rules and what the admission webhook refuses (spec kthena-controlplane 2.1, 11.2).

#include <limits>

#include "config/resource_json.hpp"
#include "config/resource_readers.hpp"

namespace warmroute::config::detail {
namespace {

constexpr std::size_t max_adapters = 10, max_rules = 16, max_targets = 16;
constexpr std::int32_t default_weight = 100;

void check_size(const YamlNode& node, std::size_t size, std::size_t limit) {
  if (size > limit) {
    node.error("Too many: " + std::to_string(size) + ": must have at most " + std::to_string(limit) + " items");
  }
}

std::optional<model::StringMatch> read_string_match(const YamlNode& node) {
  if (!node) return std::nullopt;
  model::StringMatch match;
  match.exact = node.get("exact").strict_text();
  match.prefix = node.get("prefix").strict_text();
  match.regex = node.get("regex").strict_text();
  return match;
}

std::optional<model::ModelMatch> read_model_match(const YamlNode& node) {
  if (!node) return std::nullopt;
  model::ModelMatch match;
  for (const auto& [header, rule] : node.get("headers").entries()) {
    if (rule.is_null()) rule.error("must not be null");
    match.headers[header] = read_string_match(rule);
  }
  match.uri = read_string_match(node.get("uri"));
  match.body_model = node.get("body").get("model").strict_text();
  return match;
}

std::optional<model::TargetModel> read_target(const YamlNode& node, bool lora_route) {
  if (!node) {
    node.error("target model must not be nil");
    return std::nullopt;
  }
  model::TargetModel target;
  const YamlNode server = node.get("modelServerName");
  const YamlNode provider = node.get("externalModelProviderName");
  const auto server_name = server.strict_text();
  const auto provider_name = provider.strict_text();
  target.model_server_name = server_name.value_or("");
  target.external_provider_name = provider_name.value_or("");
  target.weight = static_cast<std::int32_t>(node.get("weight").integer(0, 100).value_or(default_weight));
  const bool readable = node.is_map() && (!server || server_name) && (!provider || provider_name);
  if (readable && target.model_server_name.empty() == target.external_provider_name.empty()) {
    node.error("exactly one of modelServerName or externalModelProviderName must be set");
  }
  if (lora_route && !target.external_provider_name.empty()) provider.error("lora routes must target modelServerName");
  return target;
}

std::optional<model::Rule> read_rule(const YamlNode& node, bool lora_route) {
  if (!node) {
    node.error("rule must not be nil");
    return std::nullopt;
  }
  model::Rule rule;
  rule.name = node.get("name").strict_text().value_or("");
  rule.match = read_model_match(node.get("modelMatch"));
  const YamlNode targets = required(node, "targetModels");
  std::int64_t total = 0;
  for (const YamlNode& item : targets.items()) {
    rule.targets.push_back(read_target(item, lora_route));
    if (rule.targets.back()) total += *rule.targets.back()->weight;
  }
  if (targets.is_list() && rule.targets.empty()) {
    targets.error("each rule must have at least one target model");
  } else if (targets.is_list() && total == 0) {
    targets.warning("total weight must be greater than zero: the rule never matches");
  }
  check_size(targets, rule.targets.size(), max_targets);
  return rule;
}

model::ParentRef read_parent_ref(const YamlNode& node) {
  constexpr std::size_t group_limit = 253, kind_limit = 63, ns_limit = 63, name_limit = 253;
  model::ParentRef ref;
  if (const auto group = read_text(node.get("group"), group_limit)) {
    if (!group->empty() && !is_dns_subdomain(*group)) node.get("group").error("must be a DNS subdomain or empty");
    ref.group = *group;
  }
  if (const auto kind = read_text(node.get("kind"), kind_limit)) {
    if (kind->empty()) node.get("kind").error("must not be empty");
    ref.kind = *kind;
  }
  if (const auto ns = read_text(node.get("namespace"), ns_limit)) {
    if (!is_dns_label(*ns)) node.get("namespace").error("must be a DNS label");
    ref.ns = *ns;
  }
  if (const auto name = read_text(required(node, "name"), name_limit)) {
    if (name->empty()) node.get("name").error("must not be empty");
    ref.name = *name;
  }
  if (const auto section = read_text(node.get("sectionName"), name_limit)) {
    if (!is_dns_subdomain(*section)) node.get("sectionName").error("must be a DNS subdomain");
    ref.section_name = *section;
  }
  if (const auto port = node.get("port").integer(1, 65535)) ref.port = static_cast<std::int32_t>(*port);
  return ref;
}

std::optional<model::RateLimit> read_rate_limit(const YamlNode& node) {
  if (!node) return std::nullopt;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  model::RateLimit limit;
  limit.input_tokens_per_unit = node.get("inputTokensPerUnit").integer(1, most);
  limit.output_tokens_per_unit = node.get("outputTokensPerUnit").integer(1, most);
  limit.unit = read_enum(node.get("unit"), {"second", "minute", "hour", "day", "month"}).value_or(limit.unit);
  if (const YamlNode redis = node.get("global").get("redis")) {
    limit.redis_address = required(redis, "address").strict_text();
  }
  return limit;
}

}  // namespace

model::ModelRoute read_model_route(const YamlNode& spec, model::ObjectMeta meta) {
  model::ModelRoute route;
  route.meta = std::move(meta);
  const auto model_name = spec.get("modelName").strict_text();
  route.model_name = model_name.value_or("");
  const YamlNode adapters = spec.get("loraAdapters");
  for (const YamlNode& item : adapters.items()) {
    if (item.is_null()) item.error("must be a string");
    if (auto adapter = item.strict_text()) {
      if (adapter->empty()) item.error("lora adapter name cannot be an empty string");
      route.lora_adapters.push_back(std::move(*adapter));
    }
  }
  check_size(adapters, route.lora_adapters.size(), max_adapters);
  for (const YamlNode& item : spec.get("parentRefs").items()) {
    if (!item) item.error("must not be null");
    route.parent_refs.push_back(read_parent_ref(item));
  }
  const YamlNode rules = required(spec, "rules");
  for (const YamlNode& item : rules.items()) route.rules.push_back(read_rule(item, !route.lora_adapters.empty()));
  check_size(rules, route.rules.size(), max_rules);
  route.rate_limit = read_rate_limit(spec.get("rateLimit"));
  const bool readable = spec.is_map() && (model_name || !spec.get("modelName"));
  if (readable && route.model_name.empty() && route.lora_adapters.empty()) {
    spec.error("ModelName and LoraAdapters cannot both be empty");
  }
  route.spec_json = route_spec_json(route);
  return route;
}

}  // namespace warmroute::config::detail
