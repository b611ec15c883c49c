#include "http/head.hpp"

#include <algorithm>

namespace warmroute::http {
namespace {

constexpr char lower(char c) noexcept { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; }

}  // namespace

bool same_letters(std::string_view a, std::string_view b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

bool list_holds(std::string_view list, std::string_view token) noexcept {
  while (!list.empty()) {
    const auto comma = list.find(',');
    auto item = list.substr(0, comma);
    while (!item.empty() && (item.front() == ' ' || item.front() == '\t')) item.remove_prefix(1);
    while (!item.empty() && (item.back() == ' ' || item.back() == '\t')) item.remove_suffix(1);
    if (equals_ignoring_case(item, token)) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

std::string_view Head::first(FieldName id) const noexcept {
  for (const auto& field : fields)
    if (field.id == id) return field.value;
  return {};
}

std::string_view Head::first(std::string_view name) const noexcept {
  for (const auto& field : fields)
    if (equals_ignoring_case(field.name, name)) return field.value;
  return {};
}

}  // namespace warmroute::http
