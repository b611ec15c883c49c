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

/// \param target the path and query as received; the parameter `path` is the inference path that the request is meant
/// for (default /v1/chat/completions). Headers of the request are not matched against routes.
[[nodiscard]] Page explain_page(const ExplainContext& context, std::string_view target, std::string_view body);

}  // namespace warmroute::admin
