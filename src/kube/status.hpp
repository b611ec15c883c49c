#pragma once
// The Status object of the API server's refusals.

#include <string_view>

namespace warmroute::kube {

struct Response;

/// Fills reason, message and, from details.retryAfterSeconds, retry_after where the header had none. A body that is no
/// Status changes nothing.
void read_status(std::string_view body, Response& response);

}  // namespace warmroute::kube
