#include "webhook/label_rules.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "webhook/field_errors.hpp"

namespace warmroute::webhook {
namespace {

constexpr std::size_t max_name = 63, max_subdomain = 253;
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

bool is_lower_alnum(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alnum(char c) noexcept { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z'); }

bool is_name(std::string_view text) noexcept {
  return !text.empty() && is_alnum(text.front()) && is_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_subdomain(std::string_view text) noexcept {
  for (;;) {
    const std::size_t dot = text.find('.');
    const std::string_view label = text.substr(0, dot);
    if (label.empty() || !is_lower_alnum(label.front()) || !is_lower_alnum(label.back())) return false;
    if (!std::all_of(label.begin(), label.end(), [](char c) { return is_lower_alnum(c) || c == '-'; })) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

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
      if (prefix.size() > max_subdomain) found.push_back("prefix part " + too_long(max_subdomain));
      if (!is_subdomain(prefix)) found.push_back("prefix part " + std::string(subdomain_rule));
    }
  }
  if (name.empty()) found.emplace_back("name part must be non-empty");
  if (name.size() > max_name) found.push_back("name part " + too_long(max_name));
  if (!is_name(name)) found.push_back("name part " + std::string(name_rule));
  return found;
}

std::vector<std::string> value_problems(std::string_view value) {
  std::vector<std::string> found;
  if (value.size() > max_name) found.push_back(too_long(max_name));
  if (!value.empty() && !is_name(value)) found.emplace_back(value_rule);
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
