#pragma once
// Step 12: metrics and access log, exactly once per request.

#include "proxy/exchange.hpp"

namespace warmroute::proxy {

void finish(Exchange& exchange) noexcept;

}  // namespace warmroute::proxy
