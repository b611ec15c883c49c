#pragma once
// `warmroute healthcheck`, for images without a shell and a client of their own: does the router on this machine
// answer?

#include <string>
#include <string_view>
#include <vector>

#include "app/options.hpp"
#include "net/fetch.hpp"

namespace warmroute::app {

/// The command: argv[1] is `healthcheck`, the rest are the router's flags. Without any, those of process 1 are taken
/// when that is the router, as in a container. Prints why the answer is not 200.
/// \return 0 when GET /healthz gives 200 within two seconds, else 1, also for wrong flags.
[[nodiscard]] int healthcheck(int argc, const char* const* argv);

/// The flags in the text of /proc/PID/cmdline (zero-terminated words); none when it is not this program under one of
/// its two names.
[[nodiscard]] std::vector<std::string> router_flags(std::string_view cmdline);

/// Where a router with these options is asked; `tls` is not set. Its port may be any text: 0 when it is no port.
[[nodiscard]] net::FetchRequest health_request(const Options& options);

}  // namespace warmroute::app
