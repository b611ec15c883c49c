#pragma once
// Texts for the JSON that we send.

#include <string>
#include <string_view>

namespace warmroute::kube {

/// The text as a JSON string, quotes included.
[[nodiscard]] std::string json_quoted(std::string_view text);

}  // namespace warmroute::kube
