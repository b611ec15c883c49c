#include "metrics/process_series.hpp"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace warmroute::metrics {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

void put(std::vector<MetricFamily>& out, MetricType type, const char* name, const char* help, double value) {
  prometheus::ClientMetric metric;
  if (type == MetricType::Counter)
    metric.counter.value = value;
  else
    metric.gauge.value = value;
  out.push_back({name, help, type, {std::move(metric)}});
}

std::string read_all(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Seconds since the epoch at which the machine started; 0 when unknown.
double boot_time() {
  std::istringstream stat(read_all("/proc/stat"));
  std::string word;
  while (stat >> word) {
    double value = 0;
    if (word == "btime" && stat >> value) return value;
  }
  return 0;
}

void collect_stat(std::vector<MetricFamily>& out) {
  const std::string text = read_all("/proc/self/stat");
  const auto name_end = text.rfind(')');  // the program's name may hold spaces and parentheses
  if (name_end == std::string::npos) return;
  std::istringstream fields(text.substr(name_end + 1));
  // Numbering of proc(5); the state after the name is field 3.
  std::vector<std::string> field{"", "", ""};
  for (std::string word; fields >> word;) field.push_back(word);
  if (field.size() < 25) return;
  const auto number = [&](std::size_t i) { return std::stod(field[i]); };
  const auto ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  put(out, MetricType::Counter, "process_cpu_seconds_total", "User and system CPU time spent, in seconds.",
      (number(14) + number(15)) / ticks);
  put(out, MetricType::Gauge, "process_resident_memory_bytes", "Resident memory in bytes.", number(24) * page);
  if (const double boot = boot_time(); boot > 0)
    put(out, MetricType::Gauge, "process_start_time_seconds", "Start of the process, seconds since the epoch.",
        boot + number(22) / ticks);
  put(out, MetricType::Gauge, "process_threads", "Threads of the process.", number(20));
  put(out, MetricType::Gauge, "process_virtual_memory_bytes", "Virtual memory in bytes.", number(23));
}

void collect_limits(std::vector<MetricFamily>& out) {
  rlimit limit{};
  // An unlimited value is printed as the largest number, as Go's collector does.
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    put(out, MetricType::Gauge, "process_max_fds", "Limit of open file descriptors.",
        static_cast<double>(limit.rlim_cur));
  if (::getrlimit(RLIMIT_AS, &limit) == 0)
    put(out, MetricType::Gauge, "process_virtual_memory_max_bytes", "Limit of virtual memory in bytes.",
        static_cast<double>(limit.rlim_cur));
  if (DIR* dir = ::opendir("/proc/self/fd")) {
    double count = -3;  // ".", ".." and the descriptor of this very listing
    while (::readdir(dir) != nullptr) ++count;
    ::closedir(dir);
    put(out, MetricType::Gauge, "process_open_fds", "Open file descriptors.", count);
  }
}

/// Octets of the network name space, as Go's collector shows them.
void collect_network(std::vector<MetricFamily>& out) {
  std::istringstream file(read_all("/proc/self/net/netstat"));
  std::string names, values;
  while (std::getline(file, names) && std::getline(file, values)) {
    if (names.rfind("IpExt:", 0) != 0) continue;
    std::istringstream name_words(names), value_words(values);
    std::string name, value;
    while (name_words >> name && value_words >> value) {
      if (name == "InOctets")
        put(out, MetricType::Counter, "process_network_receive_bytes_total",
            "Bytes received in the network name space of the process.", std::stod(value));
      if (name == "OutOctets")
        put(out, MetricType::Counter, "process_network_transmit_bytes_total",
            "Bytes sent in the network name space of the process.", std::stod(value));
    }
  }
}

}  // namespace

void collect_process_series(std::vector<MetricFamily>& out) {
  collect_stat(out);
  collect_limits(out);
  collect_network(out);
}

}  // namespace warmroute::metrics
