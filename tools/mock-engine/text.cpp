#include "text.hpp"

#include <array>

namespace warmroute::mock {

void append_quoted(std::string& out, std::string_view text) {
  static constexpr std::string_view hex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20U || byte == 0x7FU) {
      out += "\\u00";
      out += hex[byte >> 4U];
      out += hex[byte & 15U];
    } else {
      out += c;
    }
  }
  out += '"';
}

std::string json_string(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 2);
  append_quoted(out, text);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t left = bytes.size() - i;
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = (group << 8U) | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    out += digits[(group >> 18U) & 63U];
    out += digits[(group >> 12U) & 63U];
    out += left > 1 ? digits[(group >> 6U) & 63U] : '=';
    out += left > 2 ? digits[group & 63U] : '=';
  }
  return out;
}

std::string_view filler_token(std::size_t index) noexcept {
  static constexpr std::array<std::string_view, 16> words = {
      " warm",    " blocks", " wait", " where", " the",  " longest", " shared", " prefix",
      " already", " sits",   " so",   " the",   " next", " answer",  " starts", " sooner"};
  return index == 0 ? words[0].substr(1) : words[index % words.size()];
}

std::string filler(std::size_t tokens) {
  std::string out;
  out.reserve(tokens * 7);
  for (std::size_t i = 0; i < tokens; ++i) out += filler_token(i);
  return out;
}

bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  if (a.size() != b.size()) return false;
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  for (std::size_t i = 0; i < a.size(); ++i)
    if (lower(a[i]) != lower(b[i])) return false;
  return true;
}

std::string_view trimmed(std::string_view text) noexcept {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace warmroute::mock
