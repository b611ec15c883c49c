#pragma once
// "/debug/explain": a request is posted as a client would send it, and instead of being forwarded it is explained:
// where it would be routed, and what the score plugins would say about each pod, and why. Nothing is counted or
// recorded.

#include <chrono>
#include <string_view>

#include "admin/http_server.hpp"
#include "route/table.hpp"
#include "schedule/pipeline.hpp"

namespace warmroute::admin {

inline constexpr std::string_view explain_path = "/debug/explain";
inline constexpr std::size_t explain_body_limit_bytes = std::size_t{8} << 20U;

struct ExplainContext {
  const route::Table& table;
  const schedule::Pipeline& pipeline;
  std::chrono::milliseconds sample_max_age;
  bool compat = false;
};

/// The parameter `path` of the target is the inference path that the request is meant for (default
/// /v1/chat/completions). The body may be packed with gzip. Headers of the request are not matched against routes.
[[nodiscard]] Page explain_page(const ExplainContext& context, const Post& post);

}  // namespace warmroute::admin
