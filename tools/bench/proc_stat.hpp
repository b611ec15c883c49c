#pragma once
// CPU time of a process and its children, as /proc tells it.

#include <sys/types.h>

#include <vector>

namespace bench {

/// The process and all that descend from it now; empty when it does not exist.
std::vector<pid_t> process_tree(pid_t root);

/// User plus system time in seconds, added up over `pids`; one that has ended counts as 0. Grain: one clock tick.
double cpu_seconds(const std::vector<pid_t>& pids);

}  // namespace bench
