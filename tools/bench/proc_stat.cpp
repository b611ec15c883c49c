#include "proc_stat.hpp"

#include <unistd.h>

#include <ctime>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace bench {

std::vector<pid_t> process_tree(pid_t root) {
  std::vector<pid_t> found;
  std::vector<pid_t> todo{root};
  while (!todo.empty()) {
    const auto pid = todo.back();
    todo.pop_back();
    std::error_code ec;
    const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", ec);
    if (ec) continue;
    found.push_back(pid);
    for (const auto& task : tasks) {
      std::ifstream children(task.path() / "children");
      for (pid_t child = 0; children >> child;) todo.push_back(child);
    }
  }
  return found;
}

namespace {

/// User and system time by /proc/PID/stat, each cut to whole clock ticks; negative when the process is gone.
double stat_seconds(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto name_end = text.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos) return -1;
  std::istringstream fields(text.substr(name_end + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  long user = 0;
  long system = 0;
  if (!(fields >> user >> system)) return -1;
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double cpu_seconds(const std::vector<pid_t>& pids) {
  const double tick = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  double sum = 0;
  for (const auto pid : pids) {
    const double coarse = stat_seconds(pid);
    if (coarse < 0) continue;
    // The process's clock is what stat is cut from. It counts only where both tell the same.
    clockid_t clock{};
    timespec time{};
    double fine = -1;
    if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &time) == 0)
      fine = static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    sum += fine > coarse - tick && fine < coarse + 3 * tick ? fine : coarse;
  }
  return sum;
}

}  // namespace bench
