// The load generator of the benchmark: bench-load NAME=VALUE...
//
//   port=N host=A   of the proxy; 127.0.0.1 by default
//   connections=N   how many; each sends its next request when the last one is answered,
//   rate=R          or R requests per second are due, whatever the answers do (open loop)
//   dial=R          new connections per second, all at once by default
//   once=1          one request per connection, which then stays open
//   seconds=S warm=S  the measured window, and what goes before it
//   pid=N           process whose CPU time (and its children's) is read at both ends of the window
//   hold=1          prints "ready" in place of measuring, keeps all up until standard input ends, then says what failed
//   path= model= models=N prompt=BYTES pool=N new=PERCENT events=N every_us=N   what is sent, see conversations.hpp
//
// Prints one line of JSON.

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "load.hpp"

namespace {

using bench::Plan;

bool read_arguments(int argc, char** argv, Plan& plan, bool& hold) {
  const std::map<std::string, std::function<void(const std::string&)>, std::less<>> known{
      {"port", [&](const auto& v) { plan.port = std::stoi(v); }},
      {"host", [&](const auto& v) { plan.host = v; }},
      {"connections", [&](const auto& v) { plan.connections = std::stoi(v); }},
      {"rate", [&](const auto& v) { plan.rate = std::stod(v); }},
      {"dial", [&](const auto& v) { plan.dial_rate = std::stod(v); }},
      {"once", [&](const auto& v) { plan.once = v == "1"; }},
      {"seconds", [&](const auto& v) { plan.seconds = std::stod(v); }},
      {"warm", [&](const auto& v) { plan.warm_up_s = std::stod(v); }},
      {"pid", [&](const auto& v) { plan.pid = std::stoi(v); }},
      {"hold", [&](const auto& v) { hold = v == "1"; }},
      {"path", [&](const auto& v) { plan.shape.path = v; }},
      {"model", [&](const auto& v) { plan.shape.model = v; }},
      {"models", [&](const auto& v) { plan.shape.models = std::max(1, std::stoi(v)); }},
      {"prompt", [&](const auto& v) { plan.shape.prompt_bytes = std::stoul(v); }},
      {"pool", [&](const auto& v) { plan.shape.pool = std::stoi(v); }},
      {"new", [&](const auto& v) { plan.shape.new_percent = std::stoi(v); }},
      {"events", [&](const auto& v) { plan.shape.events = std::stoi(v); }},
      {"every_us", [&](const auto& v) { plan.shape.every_us = std::stol(v); }},
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto equals = argument.find('=');
    const auto found = known.find(argument.substr(0, equals));
    if (found == known.end() || equals == std::string_view::npos) {
      std::fprintf(stderr, "bench-load: unknown argument %s\n", argv[i]);
      return false;
    }
    try {
      found->second(std::string(argument.substr(equals + 1)));
    } catch (const std::exception&) {
      std::fprintf(stderr, "bench-load: %s is no number\n", argv[i]);
      return false;
    }
  }
  return plan.port > 0 && plan.connections > 0 && plan.shape.pool > 0;
}

double at(const std::vector<std::uint32_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto index = static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[index];
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  bool hold = false;
  if (!read_arguments(argc, argv, plan, hold)) return 2;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);

  bench::Load load(plan);
  load.prepare();
  if (hold) {
    std::puts("ready");
    std::fflush(stdout);
    const auto held = load.hold();
    std::printf(R"({"failed":%llu,"first_failure":"%s"})"
                "\n",
                static_cast<unsigned long long>(held.failed), held.first_failure.c_str());
    return 0;
  }
  auto results = load.measure();
  auto& latency = results.latency_us;
  std::sort(latency.begin(), latency.end());
  std::printf(
      R"({"requests":%llu,"events":%llu,"failed":%llu,"unanswered":%llu,"seconds":%.4f,"cpu_s":%.3f,"p50_us":%.0f,)"
      R"("p99_us":%.0f,"max_us":%.0f,"first_failure":"%s"})"
      "\n",
      static_cast<unsigned long long>(results.requests), static_cast<unsigned long long>(results.events),
      static_cast<unsigned long long>(results.failed), static_cast<unsigned long long>(results.unanswered),
      results.seconds, results.cpu_s, at(latency, 0.5), at(latency, 0.99), at(latency, 1.0),
      results.first_failure.c_str());
  return 0;
}
