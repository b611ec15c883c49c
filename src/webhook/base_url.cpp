#include "webhook/base_url.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace warmroute::webhook {
namespace {

bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }
bool is_alnum(char c) noexcept { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
int hex(char c) noexcept {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// The byte that "%XY" at `at` stands for.
std::optional<int> escape_at(std::string_view text, std::size_t at) noexcept {
  if (at + 2 >= text.size()) return std::nullopt;
  const int high = hex(text[at + 1]), low = hex(text[at + 2]);
  if (high < 0 || low < 0) return std::nullopt;
  return high * 16 + low;
}

bool escapes_are_valid(std::string_view text) noexcept {
  for (std::size_t i = text.find('%'); i != std::string_view::npos; i = text.find('%', i + 1))
    if (!escape_at(text, i)) return false;
  return true;
}

/// Letters of a registered name; escapes may only stand for what is not ASCII.
bool is_host_name(std::string_view host) noexcept {
  constexpr std::string_view allowed = "-_.~!$&'()*+,;=:[]<>\"";
  for (std::size_t i = 0; i < host.size(); ++i) {
    const char c = host[i];
    if (c == '%') {
      const auto byte = escape_at(host, i);
      if (!byte || *byte < 0x80) return false;
      i += 2;
    } else if (static_cast<unsigned char>(c) < 0x80 && !is_alnum(c) && allowed.find(c) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

bool is_optional_port(std::string_view text) noexcept {
  return text.empty() || (text.front() == ':' && std::all_of(text.begin() + 1, text.end(), is_digit));
}

bool is_host(std::string_view host) noexcept {
  if (host.starts_with('[')) {
    const std::size_t end = host.rfind(']');
    if (end == std::string_view::npos || !is_optional_port(host.substr(end + 1))) return false;
    const std::size_t zone = host.substr(0, end).find("%25");
    if (zone == std::string_view::npos) return is_host_name(host);
    return is_host_name(host.substr(0, zone)) && escapes_are_valid(host.substr(zone, end - zone));
  }
  if (const std::size_t colon = host.rfind(':'); colon != std::string_view::npos)
    return is_optional_port(host.substr(colon)) && is_host_name(host);
  return is_host_name(host);
}

bool is_userinfo(std::string_view text) noexcept {
  constexpr std::string_view allowed = "-._:~!$&'()*+,;=%@";
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_alnum(c) || allowed.find(c) != std::string_view::npos; }) &&
         escapes_are_valid(text);
}

}  // namespace

BaseUrl judge_base_url(std::string_view url) {
  if (std::any_of(url.begin(), url.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
    return BaseUrl::not_https;
  const std::size_t hash = url.find('#');
  const std::string_view fragment = hash == std::string_view::npos ? std::string_view() : url.substr(hash + 1);
  std::string_view rest = url.substr(0, hash);

  constexpr std::string_view scheme = "https://";
  const auto same_letter = [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b); };
  if (rest.size() < scheme.size() || !std::equal(scheme.begin(), scheme.end(), rest.begin(),
                                                 [&](char want, char have) { return same_letter(have, want); }))
    return BaseUrl::not_https;
  rest.remove_prefix(scheme.size());

  const std::size_t mark = rest.find('?');
  const std::string_view query = mark == std::string_view::npos ? std::string_view() : rest.substr(mark + 1);
  rest = rest.substr(0, mark);
  const std::size_t slash = rest.find('/');
  std::string_view host = rest.substr(0, slash);
  const std::string_view path = slash == std::string_view::npos ? std::string_view() : rest.substr(slash);
  bool extras = !query.empty() || !fragment.empty();
  if (const std::size_t at = host.rfind('@'); at != std::string_view::npos) {
    if (!is_userinfo(host.substr(0, at))) return BaseUrl::not_https;
    host = host.substr(at + 1);
    extras = true;
  }
  if (host.empty() || !is_host(host) || !escapes_are_valid(path) || !escapes_are_valid(fragment))
    return BaseUrl::not_https;
  return extras ? BaseUrl::has_extras : BaseUrl::good;
}

}  // namespace warmroute::webhook
