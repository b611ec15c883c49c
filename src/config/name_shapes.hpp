#pragma once
// What names in Kubernetes look like. Lengths are the caller's: who refuses one says why in words of his own.

#include <string_view>

namespace warmroute::config {

inline constexpr std::size_t max_dns_label = 63;  ///< also of a label's value and the name part of its key
inline constexpr std::size_t max_dns_subdomain = 253;

/// A label's value or the name part of its key: letters and digits at both ends, also - _ . between.
[[nodiscard]] bool has_label_text_shape(std::string_view text) noexcept;
/// Lower-case letters and digits at both ends, also - between.
[[nodiscard]] bool has_dns_label_shape(std::string_view text) noexcept;
/// Those, with dots between.
[[nodiscard]] bool has_dns_subdomain_shape(std::string_view text) noexcept;

}  // namespace warmroute::config
