#include "http/percent.hpp"

#include <cstddef>

namespace warmroute::http {
namespace {

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view path_of(std::string_view target) noexcept {
  if (!target.starts_with('/')) {
    const std::size_t scheme = target.find("://");
    if (scheme == std::string_view::npos) return target.substr(0, target.find('?'));
    const std::size_t path = target.find_first_of("/?", scheme + 3);
    if (path == std::string_view::npos || target[path] == '?') return "/";
    target.remove_prefix(path);
  }
  return target.substr(0, target.find('?'));
}

bool percent_decode(std::string_view path, std::string& out) {
  out.clear();
  std::size_t at = 0;
  for (;;) {
    const std::size_t percent = path.find('%', at);
    if (percent == std::string_view::npos) {
      out.append(path.substr(at));
      return true;
    }
    out.append(path.substr(at, percent - at));
    const int high = percent + 1 < path.size() ? hex_digit(path[percent + 1]) : -1;
    const int low = percent + 2 < path.size() ? hex_digit(path[percent + 2]) : -1;
    if (high < 0 || low < 0) return false;
    out.push_back(static_cast<char>(high * 16 + low));
    at = percent + 3;
  }
}

}  // namespace warmroute::http
