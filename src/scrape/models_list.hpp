#pragma once
// The answer of an engine's GET /v1/models. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "warmroute/result.hpp"

namespace warmroute::scrape {

/// The ids of `data`, each once, in their order; entries without a text `id` are left out. Error (bad_json, bad_value)
/// when the body is no JSON object with a list `data`: then nothing is known about the models.
[[nodiscard]] Result<std::vector<std::string>> parse_models_list(std::string_view body);

}  // namespace warmroute::scrape
