#pragma once
// The path of a request target, decoded for the route matcher. What is forwarded is the target as received.

#include <string>
#include <string_view>

namespace warmroute::http {

/// The path part of a request target in origin form ("/v1/x?q") or absolute form ("http://host/v1/x?q"), without the
/// query; "/" when an absolute form has none. Other forms ("*") come back as they are.
[[nodiscard]] std::string_view path_of(std::string_view target) noexcept;

/// Replaces `out` by `path` with %XX decoded; '+' is left alone (it is a space in queries only).
/// \return false: a '%' without two hexadecimal digits behind it.
[[nodiscard]] bool percent_decode(std::string_view path, std::string& out);

}  // namespace warmroute::http
