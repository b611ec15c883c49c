#pragma once
// Original body bytes with a few spans replaced or inserted (decision 3.4: bodies are never re-serialised).

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace warmroute::http {

struct Span {
  std::size_t begin = 0, end = 0;  ///< offsets into the body; begin == end: empty
  [[nodiscard]] bool empty() const noexcept { return begin == end; }
  [[nodiscard]] std::string_view of(std::string_view body) const { return body.substr(begin, end - begin); }
};

/// Replaces `span` (empty: inserts at span.begin) by `text`.
struct Edit {
  Span span;
  std::string text;
};

/// The pieces of the edited body, in order, as views into `body` and into the edits' texts. Edits must not overlap;
/// they are sorted in place.
[[nodiscard]] std::vector<std::string_view> splice(std::string_view body, std::vector<Edit>& edits);
[[nodiscard]] std::size_t total_size(const std::vector<std::string_view>& pieces) noexcept;

}  // namespace warmroute::http
