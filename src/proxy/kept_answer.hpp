#pragma once
// The last complete answer of an engine that was not good enough to be relayed at once. It is the client's answer when
// no other pod did better (decision 3.3).

#include <string>

#include "proxy/engine_call.hpp"
#include "proxy/exchange.hpp"

namespace warmroute::proxy {

struct KeptAnswer {
  EngineAnswer answer;
  std::string body;
  std::string pod;  ///< namespace/name
  bool usable = false;
};

/// Every try failed: sends `kept` if it is usable, else an error with `message`, 504 when nothing but time-outs
/// happened.
net::Task<> answer_all_failed(Exchange& exchange, KeptAnswer kept, bool only_timeouts,
                              const char* message);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
