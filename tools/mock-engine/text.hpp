#pragma once
// JSON strings, base64 and the filler text of answers.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace warmroute::mock {

/// Appends `text` as a JSON string with its quotes; `text` must be UTF-8.
void append_quoted(std::string& out, std::string_view text);
[[nodiscard]] std::string json_string(std::string_view text);
[[nodiscard]] std::string base64(std::string_view bytes);
/// The text of token `index` of every answer, with its leading space.
[[nodiscard]] std::string_view filler_token(std::size_t index) noexcept;
/// The first `tokens` tokens.
[[nodiscard]] std::string filler(std::size_t tokens);
/// ASCII only, for header names.
[[nodiscard]] bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept;
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

}  // namespace warmroute::mock
