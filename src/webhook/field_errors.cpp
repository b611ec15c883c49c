#include "webhook/field_errors.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cstdint>

namespace warmroute::webhook {
namespace {

/// Code points that Go's strconv.IsPrint calls unprintable, as far as they occur in practice: controls, separators,
/// marks of direction, the byte order mark, private use.
bool is_printable(std::uint32_t c) noexcept {
  struct Range {
    std::uint32_t first, last;
  };
  constexpr std::array<Range, 11> unprintable{{{0x7F, 0xA0},
                                               {0xAD, 0xAD},
                                               {0x1680, 0x1680},
                                               {0x2000, 0x200F},
                                               {0x2028, 0x202F},
                                               {0x205F, 0x206F},
                                               {0x3000, 0x3000},
                                               {0xD800, 0xF8FF},
                                               {0xFEFF, 0xFEFF},
                                               {0xFFF0, 0xFFFB},
                                               {0xE0000, 0x10FFFF}}};
  if (c < 0x20) return false;
  for (const Range& range : unprintable)
    if (c >= range.first && c <= range.last) return false;
  return true;
}

/// The character that begins at `at` of valid UTF-8, and its length in bytes.
std::uint32_t decode(std::string_view text, std::size_t at, std::size_t& length) noexcept {
  const auto lead = static_cast<unsigned char>(text[at]);
  length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length > text.size() - at) length = 1;
  if (length == 1) return lead;
  std::uint32_t value = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) value = value << 6U | (static_cast<unsigned char>(text[at + i]) & 0x3FU);
  return value;
}

std::string escaped(std::uint32_t c) {
  switch (c) {
    case '\a':
      return "\\a";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\v':
      return "\\v";
    default:
      break;
  }
  if (c < 0x80) return fmt::format("\\x{:02x}", c);
  return c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
}

}  // namespace

std::string go_quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0, length = 0; i < text.size(); i += length) {
    const std::uint32_t c = decode(text, i, length);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (is_printable(c)) {
      out += text.substr(i, length);
    } else {
      out += escaped(c);
    }
  }
  return out += '"';
}

void FieldErrors::required(std::string_view path, std::string_view detail) {
  lines_.push_back(fmt::format("{}: Required value: {}", path, detail));
}

void FieldErrors::invalid(std::string_view path, std::string_view shown, std::string_view detail) {
  lines_.push_back(fmt::format("{}: Invalid value: {}: {}", path, shown, detail));
}

void FieldErrors::not_supported(std::string_view path, std::string_view value,
                                std::initializer_list<std::string_view> supported) {
  std::string list;
  for (const std::string_view each : supported) {
    if (!list.empty()) list += ", ";
    list += go_quoted(each);
  }
  lines_.push_back(fmt::format("{}: Unsupported value: {}: supported values: {}", path, go_quoted(value), list));
}

}  // namespace warmroute::webhook
