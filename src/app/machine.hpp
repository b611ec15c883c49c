#pragma once
// What the machine (or the container) allows: CPUs, memory, descriptors (decision 3.19).

#include <cstdint>

namespace warmroute::app {

/// CPUs this process may use: affinity, and the cgroup's quota (v1 or v2) rounded up. At least 1.
[[nodiscard]] unsigned available_cpus();
/// Bytes of memory this process may use: the cgroup's limit, else the machine's.
[[nodiscard]] std::uint64_t available_memory();
/// Raises the soft descriptor limit to the hard one. \return the limit in force.
std::uint64_t raise_descriptor_limit();

}  // namespace warmroute::app
