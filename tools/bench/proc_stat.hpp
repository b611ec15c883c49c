#pragma once
// CPU time of a process and its children, as /proc tells it.

#include <sys/types.h>

#include <vector>

namespace bench {

/// The process and all that descend from it now; empty when it does not exist.
std::vector<pid_t> process_tree(pid_t root);

/// User plus system time in seconds, added up over `pids`; one that has ended counts as 0. From /proc/PID/stat, whose
/// grain of a clock tick (10 ms) is refined by the process's clock.
double cpu_seconds(const std::vector<pid_t>& pids);

}  // namespace bench
