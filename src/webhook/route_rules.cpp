#include <map>

#include "route/regex_problem.hpp"
#include "webhook/rules.hpp"

namespace warmroute::webhook {
namespace {

constexpr std::uint32_t default_weight = 100;

void check_regex(const JsonReader& match, FieldErrors& errors) {
  const JsonReader regex = match.get("regex");
  const auto pattern = regex.optional_text();
  if (!pattern) return;
  if (const std::string problem = route::regex_problem(*pattern); !problem.empty())
    errors.invalid(regex.path(), go_quoted(*pattern), problem);
}

void check_match(const JsonReader& match, FieldErrors& errors) {
  std::map<std::string, JsonReader> headers;  // ordered; of equal names the last counts
  for (const auto& [name, rule] : match.get("headers").entries()) headers.insert_or_assign(name, rule);
  for (const auto& [name, rule] : headers) check_regex(rule, errors);
  check_regex(match.get("uri"), errors);
}

/// \return the target's share of the weight.
std::uint32_t check_target(const JsonReader& target, bool lora_route, FieldErrors& errors) {
  const std::string server = target.get("modelServerName").text();
  const JsonReader provider_field = target.get("externalModelProviderName");
  const std::string provider = provider_field.text();
  if (server.empty() == provider.empty())
    errors.invalid(target.path(), go_quoted(server + "/" + provider),
                   "exactly one of modelServerName or externalModelProviderName must be set");
  if (!provider.empty() && lora_route)
    errors.invalid(provider_field.path(), go_quoted(provider), "lora routes must target modelServerName");
  return target.get("weight").number().value_or(default_weight);
}

void check_rule(const JsonReader& rule, bool lora_route, FieldErrors& errors) {
  if (!rule) return errors.invalid(rule.path(), "null", "rule must not be nil");
  const JsonReader targets = rule.get("targetModels");
  const auto items = targets.items();
  if (items.empty()) return errors.required(targets.path(), "each rule must have at least one target model");
  std::uint64_t total = 0;
  for (const JsonReader& target : items) {
    if (target)
      total += check_target(target, lora_route, errors);
    else
      errors.invalid(target.path(), "null", "target model must not be nil");
  }
  if (total == 0) errors.invalid(targets.path(), "0", "total weight must be greater than zero");
  check_match(rule.get("modelMatch"), errors);
}

}  // namespace

void check_model_route(const JsonReader& object, FieldErrors& errors) {
  const JsonReader spec = object.get("spec");
  const auto adapters = spec.get("loraAdapters").items();
  if (spec.get("modelName").text().empty() && adapters.empty())
    errors.required(spec.path(), "either modelName or loraAdapters must be specified");
  for (const JsonReader& adapter : adapters)
    if (adapter.text().empty()) errors.invalid(adapter.path(), "\"\"", "lora adapter name cannot be an empty string");
  for (const JsonReader& rule : spec.get("rules").items()) check_rule(rule, !adapters.empty(), errors);
}

}  // namespace warmroute::webhook
