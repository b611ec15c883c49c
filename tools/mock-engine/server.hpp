#pragma once

#include "options.hpp"

namespace warmroute::mock {

/// Serves until SIGINT or SIGTERM; prints `listening on ADDR:PORT` when ready. Returns the exit code.
int run(Options options);

}  // namespace warmroute::mock
