#pragma once
// Steps 8 to 10: choose pods and try them one after the other (decision 3.3). Previous step: proxy/request.cpp, next:
// proxy/attempt.cpp.

#include "proxy/exchange.hpp"

namespace warmroute::proxy {

/// Schedules the request on the pods of match.server and tries the candidates until one answered, or answers with an
/// error. match.server has pods.
net::Task<> forward(Exchange& exchange,
                    route::Match match);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
