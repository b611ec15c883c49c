#include "webhook/label_rules.hpp"

#include <spdlog/fmt/fmt.h>

#include <vector>

#include "config/name_shapes.hpp"
#include "webhook/field_errors.hpp"

namespace warmroute::webhook {
namespace {

using config::max_dns_label;
using config::max_dns_subdomain;
constexpr std::string_view name_rule =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
constexpr std::string_view value_rule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr std::string_view subdomain_rule =
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

std::string too_long(std::size_t limit) { return fmt::format("must be no more than {} characters", limit); }

std::vector<std::string> key_problems(std::string_view key) {
  std::vector<std::string> found;
  std::string_view name = key;
  if (const std::size_t slash = key.find('/'); slash != std::string_view::npos) {
    const std::string_view prefix = key.substr(0, slash);
    name = key.substr(slash + 1);
    if (name.find('/') != std::string_view::npos)
      return {
          fmt::format("a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. "
                      "'example.com/MyName')",
                      name_rule)};
    if (prefix.empty()) {
      found.emplace_back("prefix part must be non-empty");
    } else {
      if (prefix.size() > max_dns_subdomain) found.push_back("prefix part " + too_long(max_dns_subdomain));
      if (!config::has_dns_subdomain_shape(prefix)) found.push_back("prefix part " + std::string(subdomain_rule));
    }
  }
  if (name.empty()) found.emplace_back("name part must be non-empty");
  if (name.size() > max_dns_label) found.push_back("name part " + too_long(max_dns_label));
  if (!config::has_label_text_shape(name)) found.push_back("name part " + std::string(name_rule));
  return found;
}

std::vector<std::string> value_problems(std::string_view value) {
  std::vector<std::string> found;
  if (value.size() > max_dns_label) found.push_back(too_long(max_dns_label));
  if (!value.empty() && !config::has_label_text_shape(value)) found.emplace_back(value_rule);
  return found;
}

}  // namespace

std::optional<std::string> selector_problem(const model::Labels& labels) {
  for (const auto& [key, value] : labels) {
    FieldErrors errors;
    if (const auto wrong = key_problems(key); !wrong.empty())
      errors.invalid("key", go_quoted(key), fmt::format("{}", fmt::join(wrong, "; ")));
    if (const auto wrong = value_problems(value); !wrong.empty())
      errors.invalid(fmt::format("values[0][{}]", key), go_quoted(value), fmt::format("{}", fmt::join(wrong, "; ")));
    if (errors.empty()) continue;
    // How the API machinery prints several at once.
    if (errors.lines().size() == 1) return errors.lines().front();
    return fmt::format("[{}]", fmt::join(errors.lines(), ", "));
  }
  return std::nullopt;
}

}  // namespace warmroute::webhook
