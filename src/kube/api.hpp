#pragma once
// How the parts of the control path ask the API server: a function, so that tests stand in for it.

#include <functional>

#include "kube/client.hpp"

namespace warmroute::kube {

/// Client::request(), or a test's answer.
using Api = std::function<net::Task<Result<Response>>(Request)>;

}  // namespace warmroute::kube
