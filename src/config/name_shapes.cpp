#include "config/name_shapes.hpp"

#include <algorithm>

namespace warmroute::config {
namespace {

bool is_lower_alnum(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
bool is_alnum(char c) noexcept { return is_lower_alnum(c) || (c >= 'A' && c <= 'Z'); }

}  // namespace

bool has_label_text_shape(std::string_view text) noexcept {
  return !text.empty() && is_alnum(text.front()) && is_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}

bool has_dns_label_shape(std::string_view text) noexcept {
  return !text.empty() && is_lower_alnum(text.front()) && is_lower_alnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return is_lower_alnum(c) || c == '-'; });
}

bool has_dns_subdomain_shape(std::string_view text) noexcept {
  for (;;) {
    const std::size_t dot = text.find('.');
    if (!has_dns_label_shape(text.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

}  // namespace warmroute::config
