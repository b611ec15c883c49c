#pragma once
// Step 8: the pods of one ModelServer, scheduled for one request.

#include "model/pod_record.hpp"
#include "proxy/exchange.hpp"

namespace warmroute::proxy {

/// The candidates of one request, best first, and the guard of the best.
struct Pick {
  schedule::Decision decision;  ///< indices into server.pods; count 0: all were filtered out
  model::InFlightGuard guard;
};

/// Runs the pipeline; once more when another worker took the same pod meanwhile. `server` has pods.
[[nodiscard]] Pick pick(Exchange& exchange, const model::ServerEntry& server);

}  // namespace warmroute::proxy
