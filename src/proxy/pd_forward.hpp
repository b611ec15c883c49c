#pragma once
// Steps 8 to 10 for a ModelServer with a PD group: a prefill pod computes the prompt, a decode pod the answer; pair
// after pair until one answered. Previous step: proxy/request.cpp, next: proxy/attempt.cpp.

#include "proxy/exchange.hpp"

namespace warmroute::proxy {

/// As forward(). match.server has a PD group and pods.
net::Task<> forward_pair(Exchange& exchange,
                         route::Match match);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
