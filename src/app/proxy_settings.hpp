#pragma once
// Command line and environment as the request path wants them.

#include "app/options.hpp"
#include "proxy/context.hpp"
#include "proxy/wait_queue.hpp"

namespace warmroute::app {

/// \param compat by flag, variable or configuration file.
[[nodiscard]] proxy::Settings settings_of(const Options& options, bool compat);
[[nodiscard]] proxy::QueueLimits queue_limits_of(const Options& options);

}  // namespace warmroute::app
