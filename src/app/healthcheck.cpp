#include "app/healthcheck.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "app/flag_values.hpp"
#include "net/task_group.hpp"
#include "net/tls.hpp"

namespace warmroute::app {
namespace {

constexpr int healthy = 0;
constexpr int unhealthy = 1;  // Docker reserves 2
constexpr std::chrono::milliseconds time_limit{2000};

/// `io` and `answer` are the caller's, which runs `io` until this has ended.
net::Task<> ask(net::io_context& io, net::FetchRequest request, std::optional<Result<net::FetchResponse>>& answer) {
  net::FetchConnection connection(io);
  answer = co_await connection.get(std::move(request));
}

std::string first_process() {
  std::ifstream file("/proc/1/cmdline", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Empty when the router is healthy.
std::string problem_of(const Options& options) {
  auto request = health_request(options);
  if (request.port == 0) return "invalid port: " + options.port;
  std::unique_ptr<net::ClientTls> tls;
  if (!options.tls_cert.empty()) {
    auto created = net::ClientTls::create("", true);  // its own certificate, and it need not name the loopback address
    if (!created) return created.error().detail;
    tls = std::move(*created);
    request.tls = tls.get();
  }
  net::io_context io(1);
  net::TaskGroup tasks(io);
  std::optional<Result<net::FetchResponse>> answer;
  tasks.spawn("health check", ask(io, std::move(request), answer));
  io.run();
  if (!answer) return "the check was broken off";
  if (!*answer) return answer->error().detail;
  if ((*answer)->status != 200) return "/healthz answered " + std::to_string((*answer)->status);
  return {};
}

}  // namespace

std::vector<std::string> router_flags(std::string_view cmdline) {
  std::vector<std::string> words;
  while (!cmdline.empty()) {
    const auto end = cmdline.find('\0');
    words.emplace_back(cmdline.substr(0, end));
    cmdline.remove_prefix(end == std::string_view::npos ? cmdline.size() : end + 1);
  }
  if (words.empty()) return {};
  const auto name = words.front().substr(words.front().rfind('/') + 1);
  if (name != "warmroute" && name != "kthena-router") return {};
  words.erase(words.begin());
  return words;
}

net::FetchRequest health_request(const Options& options) {
  net::FetchRequest request;
  request.ip = options.bind_address;
  if (request.ip.empty() || request.ip == "0.0.0.0") request.ip = "127.0.0.1";
  if (request.ip == "::") request.ip = "::1";
  const auto port = parse_int(options.port, 1, 65535);
  request.port = port ? static_cast<std::uint16_t>(*port) : std::uint16_t{0};
  request.target = "/healthz";
  request.timeout = time_limit;
  request.body_limit_bytes = 4096;
  return request;
}

int healthcheck(int argc, const char* const* argv) {
  std::vector<std::string> words(argv + 2, argv + argc);
  if (words.empty()) words = router_flags(first_process());
  std::vector<const char*> line{argv[0]};
  for (const auto& word : words) line.push_back(word.c_str());
  const auto parsed = parse_command_line(static_cast<int>(line.size()), line.data());
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code == 0 ? healthy : unhealthy;
  }
  const auto problem = problem_of(*parsed.options);
  if (problem.empty()) return healthy;
  std::fprintf(stderr, "unhealthy: %s\n", problem.c_str());
  return unhealthy;
}

}  // namespace warmroute::app
