#pragma once
// Base64 as kubeconfig files and Secrets have it (RFC 4648 section 4).

#include <optional>
#include <string>
#include <string_view>

namespace warmroute::base {

[[nodiscard]] std::string base64_encode(std::string_view bytes);
/// White space is skipped, padding may be missing; nullopt: another character, or a length that cannot be.
[[nodiscard]] std::optional<std::string> base64_decode(std::string_view text);

}  // namespace warmroute::base
