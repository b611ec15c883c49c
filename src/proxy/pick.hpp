#pragma once
// Step 8: the pods of one ModelServer, scheduled for one request, and the best of them reserved. Next step:
// proxy/attempt.cpp.

#include <optional>
#include <span>

#include "model/pod_record.hpp"
#include "proxy/breaker_pass.hpp"
#include "proxy/exchange.hpp"

namespace warmroute::proxy {

/// One pod with all that is taken for the request when it is chosen.
struct Reserved {
  std::uint32_t index = 0;  ///< into server.pods
  model::InFlightGuard guard;
  BreakerPass pass;
};

/// What plugins may see of a pod.
[[nodiscard]] PodView view_of(const model::PodEntry& entry, model::Clock::time_point now, const Settings& settings);

/// The candidates of one request, best first, and the reservation of the first of them.
struct Pick {
  schedule::Decision decision;  ///< indices into server.pods; count 0: all were filtered out
  std::size_t next = 0;         ///< the candidate after the one that was reserved last
  bool forced = false;          ///< no breaker admits requests: they are tried all the same
  Reserved best;
};

/// Whether the pod's breaker lets a request in. `as_of`: of one that waits in line (Place::as_of()). No draw decides
/// for those, which would let them pass each other: the share of the ramp is one of the pod's in-flight limit then.
[[nodiscard]] bool breaker_admits(const Shared& shared, const model::PodRecord& record,
                                  std::optional<net::Clock::time_point> as_of);

/// Runs the pipeline over the pods whose breaker admits requests (over all when none does) and that are not among
/// `tried`; once more when another worker took the same pod meanwhile. `server` has pods. `as_of`: of a request that
/// waits in line.
[[nodiscard]] Pick pick(Exchange& exchange, const model::ServerEntry& server, std::span<const PodId> tried = {},
                        std::optional<net::Clock::time_point> as_of = {});

/// Reserves the next candidate that is not at its limit and whose breaker admits it. False: there is none.
[[nodiscard]] bool take_next(Exchange& exchange, const model::ServerEntry& server, Pick& pick, Reserved& reserved);

}  // namespace warmroute::proxy
