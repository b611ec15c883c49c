#pragma once
// Times as Kubernetes writes them.

#include <cstdint>
#include <optional>
#include <string_view>

namespace warmroute::config {

/// RFC 3339 -> unix seconds, the fraction cut off.
[[nodiscard]] std::optional<std::int64_t> parse_rfc3339(std::string_view text);

}  // namespace warmroute::config
