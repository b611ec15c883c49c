#include "base/base64.hpp"

#include <cstdint>

namespace warmroute::base {
namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    std::uint32_t group = 0;
    const std::string_view piece = bytes.substr(at, 3);
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (i < piece.size() ? static_cast<unsigned char>(piece[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i) out += i <= piece.size() ? alphabet[group >> (18U - 6U * i) & 63U] : '=';
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  unsigned count = 0, symbols = 0, padding = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '=') {
      if (++padding > 2) return std::nullopt;
      continue;
    }
    const std::size_t value = alphabet.find(c);
    if (value == std::string_view::npos || padding != 0) return std::nullopt;
    bits = bits << 6U | static_cast<std::uint32_t>(value);
    count += 6;
    ++symbols;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xFFU);
  }
  const unsigned rest = symbols % 4;
  const bool padded = padding == 0 || (symbols + padding) % 4 == 0;
  if (rest == 1 || !padded) return std::nullopt;
  return out;
}

}  // namespace warmroute::base
