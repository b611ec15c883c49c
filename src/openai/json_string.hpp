#pragma once
// The text inside JSON strings: unescaping as far as it is wanted, and counting to the end.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warmroute::openai {

/// Appends the unescaped form of `raw` (inside of the quotes, valid UTF-8) to `out` until `out` has `limit` bytes,
/// which may be inside a character; adds the characters of all of `raw` to `characters`. A surrogate without its
/// partner becomes U+FFFD, as in Go. \return the offset of a malformed escape in `raw`, or npos.
[[nodiscard]] std::size_t unescape(std::string_view raw, std::size_t limit, std::string& out, std::int64_t& characters);

/// Length of the longest valid UTF-8 prefix; text.size() when all is valid.
[[nodiscard]] std::size_t valid_utf8_length(std::string_view text) noexcept;

void append_utf8(std::string& out, std::uint32_t code_point);

}  // namespace warmroute::openai
