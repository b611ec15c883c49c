#pragma once
// Step 8, the part that may wait: a reserved pod for the request, or why there is none. Previous step:
// proxy/forward.cpp, next: proxy/pick.cpp.

#include <span>
#include <string>

#include "openai/error_body.hpp"
#include "proxy/pick.hpp"
#include "proxy/wait_queue.hpp"

namespace warmroute::proxy {

/// What has to be ended when the client leaves; one of them at most.
struct Current {
  class Attempt* attempt = nullptr;
  class Pause* pause = nullptr;
  WaitQueues::Place* place = nullptr;
};

struct Admission {
  Pick pick;  ///< decision.count 0: refused, or the client left
  openai::ErrorKind refusal = openai::ErrorKind::all_filtered;
  std::string message;
  int retry_after_seconds = 0;  ///< 0: the default of the refusal
};

/// Picks a pod that is not among `tried`; where all are at their in-flight limit, waits in the queue of the server
/// while `current.place` is set. Waiting moves match.server to the newest table.
net::Task<Admission> admit(Exchange& exchange, route::Match& match, std::span<const PodId> tried,
                           Current& current);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
