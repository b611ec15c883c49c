#pragma once

#include <cstdint>
#include <string_view>

namespace warmroute::base {

/// Unicode characters of valid UTF-8; of other bytes, those that do not continue a character (0x80 to 0xBF).
[[nodiscard]] std::int64_t count_characters(std::string_view text) noexcept;

}  // namespace warmroute::base
