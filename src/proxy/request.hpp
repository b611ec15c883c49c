#pragma once
// Step 4: the life of one request, told in order. See the README's table.

#include "proxy/session.hpp"

namespace warmroute::proxy {

/// Serves the request whose head is in `head`; its body is read from the session. True when the client's connection
/// may carry another request.
net::Task<bool> serve_request(Session& session,
                              base::Bytes head);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
