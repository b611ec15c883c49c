#include "proc_stat.hpp"

#include <unistd.h>

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

double cpu_seconds(const std::vector<pid_t>& pids) {
  long ticks = 0;
  for (const auto pid : pids) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto name_end = text.rfind(')');  // a name may hold anything
    if (name_end == std::string::npos) continue;
    std::istringstream fields(text.substr(name_end + 2));
    std::string skipped;
    for (int i = 0; i < 11; ++i) fields >> skipped;
    long user = 0;
    long system = 0;
    if (fields >> user >> system) ticks += user + system;
  }
  return static_cast<double>(ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace bench
