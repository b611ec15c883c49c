#include "app/machine.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <string>

namespace warmroute::app {
namespace {

std::optional<std::string> first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc()) return std::nullopt;
  return value;
}

// The folder of our own cgroup (v2) below the mount, or "" where it cannot be told (then the mount itself counts,
// which is right inside a container).
std::string cgroup_folder() {
  std::ifstream file("/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line))
    if (line.starts_with("0::")) return line.substr(3);
  return {};
}

std::optional<unsigned> quota_cpus() {
  for (const auto& folder : {"/sys/fs/cgroup" + cgroup_folder(), std::string("/sys/fs/cgroup")}) {
    if (const auto line = first_line(folder + "/cpu.max")) {
      const auto space = line->find(' ');
      const auto quota = number(std::string_view(*line).substr(0, space));
      const auto period = space == std::string::npos ? std::nullopt : number(std::string_view(*line).substr(space + 1));
      if (quota && period && *period > 0) return static_cast<unsigned>((*quota + *period - 1) / *period);
    }
  }
  const auto quota = first_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  const auto period = first_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  if (quota && period) {
    const auto q = number(*quota), p = number(*period);  // -1: none, which is no number here
    if (q && p && *p > 0) return static_cast<unsigned>((*q + *p - 1) / *p);
  }
  return std::nullopt;
}

}  // namespace

unsigned available_cpus() {
  cpu_set_t set;
  unsigned cpus = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = static_cast<unsigned>(CPU_COUNT(&set));
  if (const auto quota = quota_cpus()) cpus = std::min(cpus, *quota);
  return std::max(cpus, 1U);
}

std::uint64_t available_memory() {
  auto memory =
      static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  for (const auto& path : {"/sys/fs/cgroup" + cgroup_folder() + "/memory.max", std::string("/sys/fs/cgroup/memory.max"),
                           std::string("/sys/fs/cgroup/memory/memory.limit_in_bytes")}) {
    const auto line = first_line(path);
    const auto limit = line ? number(*line) : std::nullopt;  // "max" is no number
    if (limit && *limit > 0) memory = std::min(memory, *limit);
  }
  return memory;
}

std::uint64_t raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);  // the old one stays in force then
    (void)getrlimit(RLIMIT_NOFILE, &limit);
  }
  return limit.rlim_cur;
}

}  // namespace warmroute::app
