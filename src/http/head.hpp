#pragma once
// Message heads as views into the bytes they were parsed from, and the verdict on how the body is framed.

#include <boost/beast/http/field.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

namespace warmroute::http {

using FieldName = boost::beast::http::field;

struct Field {
  FieldName id = FieldName::unknown;  ///< unknown: compare `name`
  std::string_view name, value;
};

/// How the bytes after the head are framed.
struct Framing {
  enum class Kind : std::uint8_t { none, length, chunked, until_close };
  Kind kind = Kind::none;
  std::uint64_t length = 0;
};

struct Head {
  // Request
  std::string_view method, target;
  // Response
  int status = 0;
  std::string_view reason;
  // Both
  int version = 11;  ///< 10 or 11
  std::vector<Field> fields;
  Framing framing;
  bool keep_alive = true;  ///< what version and Connection say about this side

  void clear() noexcept {
    method = target = reason = {};
    status = 0;
    version = 11;
    fields.clear();
    framing = {};
    keep_alive = true;
  }
  /// Value of the first field of that name, or an empty view.
  [[nodiscard]] std::string_view first(FieldName id) const noexcept;
  [[nodiscard]] std::string_view first(std::string_view name) const noexcept;
};

/// Of equally long texts.
[[nodiscard]] bool same_letters(std::string_view a, std::string_view b) noexcept;
[[nodiscard]] inline bool equals_ignoring_case(std::string_view a, std::string_view b) noexcept {
  // Letters differ in bit 0x20 only, and most names in their first one.
  return a.size() == b.size() && (a.empty() || ((a.front() ^ b.front()) & ~0x20) == 0) && same_letters(a, b);
}
/// A comma-separated list holds the token.
[[nodiscard]] bool list_holds(std::string_view list, std::string_view token) noexcept;

}  // namespace warmroute::http
