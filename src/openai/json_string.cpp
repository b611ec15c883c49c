#include "openai/json_string.hpp"

#include <algorithm>
#include <cstring>

#include "base/characters.hpp"

namespace warmroute::openai {
namespace {

constexpr std::uint32_t replacement_character = 0xFFFD;

struct Escape {
  std::uint32_t code_point = 0;
  std::size_t length = 0;  ///< bytes of the escape; 0: malformed
};

/// Four hexadecimal digits at `p`, or -1.
std::int32_t hex4(const char* p, const char* end) noexcept {
  if (end - p < 4) return -1;
  std::int32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = p[i];
    std::int32_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return -1;
    }
    value = value * 16 + digit;
  }
  return value;
}

/// `p` is behind "\u".
Escape read_unicode(const char* p, const char* end) noexcept {
  const std::int32_t first = hex4(p, end);
  if (first < 0) return {};
  const auto unit = static_cast<std::uint32_t>(first);
  if (unit < 0xD800 || unit > 0xDFFF) return {unit, 6};
  if (unit < 0xDC00 && end - p >= 10 && p[4] == '\\' && p[5] == 'u') {
    const std::int32_t second = hex4(p + 6, end);
    if (second >= 0xDC00 && second <= 0xDFFF) {
      return {0x10000 + ((unit - 0xD800) << 10U) + (static_cast<std::uint32_t>(second) - 0xDC00), 12};
    }
  }
  return {replacement_character, 6};
}

/// `p` is at the backslash.
Escape read_escape(const char* p, const char* end) noexcept {
  if (end - p < 2) return {};
  switch (p[1]) {
    case 'n':
      return {'\n', 2};
    case '"':
    case '\\':
    case '/':
      return {static_cast<unsigned char>(p[1]), 2};
    case 't':
      return {'\t', 2};
    case 'r':
      return {'\r', 2};
    case 'b':
      return {'\b', 2};
    case 'f':
      return {'\f', 2};
    case 'u':
      return read_unicode(p + 2, end);
    default:
      return {};
  }
}

}  // namespace

void append_utf8(std::string& out, std::uint32_t c) {
  const auto put = [&](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0U | c >> 6U);
    put(0x80U | (c & 0x3FU));
  } else if (c < 0x10000) {
    put(0xE0U | c >> 12U);
    put(0x80U | (c >> 6U & 0x3FU));
    put(0x80U | (c & 0x3FU));
  } else {
    put(0xF0U | c >> 18U);
    put(0x80U | (c >> 12U & 0x3FU));
    put(0x80U | (c >> 6U & 0x3FU));
    put(0x80U | (c & 0x3FU));
  }
}

std::size_t unescape(std::string_view raw, std::size_t limit, std::string& out, std::int64_t& characters) {
  characters += base::count_characters(raw);
  const char* p = raw.data();
  const char* const end = p + raw.size();
  const auto append = [&](const char* from, const char* to) {
    if (out.size() < limit) out.append(from, std::min(static_cast<std::size_t>(to - from), limit - out.size()));
  };
  while (p != end) {
    if (*p != '\\') {
      const auto* slash = static_cast<const char*>(std::memchr(p, '\\', static_cast<std::size_t>(end - p)));
      if (slash == nullptr) {
        append(p, end);
        break;
      }
      append(p, slash);
      p = slash;
    }
    const Escape escape = read_escape(p, end);
    if (escape.length == 0) return static_cast<std::size_t>(p - raw.data());
    p += escape.length;
    characters -= static_cast<std::int64_t>(escape.length) - 1;  // its bytes were counted as one character each
    if (out.size() < limit) {
      append_utf8(out, escape.code_point);
      if (out.size() > limit) out.resize(limit);
    }
  }
  return std::string_view::npos;
}

std::size_t valid_utf8_length(std::string_view text) noexcept {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  std::size_t i = 0;
  while (i < text.size()) {
    const unsigned char lead = byte(i);
    const unsigned char second = byte(i + 1);
    std::size_t length = 0;
    if (lead < 0x80) {
      length = 1;
    } else if (lead >= 0xC2 && lead <= 0xDF) {
      length = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      length = 3;
      if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F)) return i;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      length = 4;
      if ((lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) return i;
    } else {
      return i;
    }
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0U) != 0x80) return i;
    }
    i += length;
  }
  return i;
}

}  // namespace warmroute::openai
