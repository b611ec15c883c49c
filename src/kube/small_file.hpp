#pragma once
// Tokens, certificates, kubeconfig files: small, local, read whole.

#include <string>

#include "warmroute/result.hpp"

namespace warmroute::kube {

inline constexpr std::size_t small_file_limit_bytes = 4U << 20U;

/// Errors: why it cannot be read (the path is not in it).
[[nodiscard]] Result<std::string> read_small_file(const std::string& path);
/// Without white space at both ends.
[[nodiscard]] std::string trimmed(const std::string& text);

}  // namespace warmroute::kube
