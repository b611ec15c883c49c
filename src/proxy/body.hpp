#pragma once
// Step 5: the request's body into one buffer, under the limits. Previous step: proxy/request.cpp (head), next:
// openai/inspect.cpp.

#include <optional>

#include "proxy/exchange.hpp"

namespace warmroute::proxy {

/// Reads (and decodes, for gzip) the body. A refusal says how to answer; empty: the body is there. When the client
/// left, session.client_left() is set or its connection is closed.
net::Task<std::optional<openai::Refusal>> read_body(
    Exchange& exchange);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
