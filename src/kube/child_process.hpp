#pragma once
// A program and what it prints, awaited on the loop. /dev/null is its input, our stderr its stderr; it is the leader of
// a process group and inherits no other descriptor.

#include <chrono>
#include <string>
#include <vector>

#include "net/task.hpp"
#include "warmroute/result.hpp"

namespace warmroute::kube {

struct Command {
  std::string program;  ///< looked up in PATH when it has no slash
  std::vector<std::string> args;
  std::vector<std::string> extra_env;  ///< NAME=VALUE, in front of ours
  std::chrono::milliseconds timeout{30'000};
  std::size_t output_limit_bytes = 1U << 20U;
};

/// Its output when it ended with 0. Whatever else happens, the group is killed and the child is reaped.
net::Task<Result<std::string>> run_command(net::io_context& io, Command command);

}  // namespace warmroute::kube
