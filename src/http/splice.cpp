#include "http/splice.hpp"

#include <algorithm>

namespace warmroute::http {

std::vector<std::string_view> splice(std::string_view body, std::vector<Edit>& edits) {
  std::stable_sort(edits.begin(), edits.end(),
                   [](const Edit& a, const Edit& b) { return a.span.begin < b.span.begin; });
  std::vector<std::string_view> pieces;
  pieces.reserve(2 * edits.size() + 1);
  std::size_t at = 0;
  for (const Edit& edit : edits) {
    if (edit.span.begin > at) pieces.push_back(body.substr(at, edit.span.begin - at));
    if (!edit.text.empty()) pieces.emplace_back(edit.text);
    at = edit.span.end;
  }
  if (at < body.size()) pieces.push_back(body.substr(at));
  return pieces;
}

std::size_t total_size(const std::vector<std::string_view>& pieces) noexcept {
  std::size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  return size;
}

}  // namespace warmroute::http
