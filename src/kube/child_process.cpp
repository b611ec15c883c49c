#include "kube/child_process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <system_error>

namespace warmroute::kube {
namespace {

using Pipe = boost::asio::posix::basic_stream_descriptor<net::Executor>;

Error failed(std::string detail, Errc code = Errc::io) {
  return Error{code, Source::internal, Retry::never, std::move(detail)};
}

/// The child's process group. Destruction kills it and reaps the child: SIGKILL ends it at once, so the wait is short.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    ::kill(-pid_, SIGKILL);  // also what it left behind
    if (status_) return;
    int ignored = 0;
    while (::waitpid(pid_, &ignored, 0) < 0 && errno == EINTR) {
    }
  }
  /// Its wait status, once it has ended.
  std::optional<int> poll() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_;
  }

 private:
  pid_t pid_;
  std::optional<int> status_;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (auto& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// 0 or an errno. `out` becomes the child's stdout.
int spawn(Command& command, int out, pid_t& pid) {
  std::vector<std::string> arguments{command.program};
  arguments.insert(arguments.end(), command.args.begin(), command.args.end());
  std::vector<std::string> variables = command.extra_env;
  for (char** entry = ::environ; *entry != nullptr; ++entry) {
    const std::string name = std::string(*entry).substr(0, std::string(*entry).find('=') + 1);
    bool replaced = false;
    for (const auto& given : command.extra_env) replaced = replaced || given.starts_with(name);
    if (!replaced) variables.emplace_back(*entry);
  }
  const auto argv = pointers(arguments);
  const auto envp = pointers(variables);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, out, 1);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);  // a client's socket must not live on in a child
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigemptyset(&all);
  for (const int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP}) sigaddset(&all, number);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int result = ::posix_spawnp(&pid, command.program.c_str(), &actions, &attributes, argv.data(), envp.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  return result;
}

std::string describe(int status) {
  if (WIFEXITED(status)) return "exit code " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status));
}

struct State {
  explicit State(net::io_context& io) : pipe(io), timer(io.get_executor()), deadline(io.get_executor()) {}
  Pipe pipe;
  net::Timer timer, deadline;
  bool late = false;
};

}  // namespace

net::Task<Result<std::string>> run_command(net::io_context& io, Command command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) co_return failed(std::generic_category().message(errno));
  auto state = std::make_shared<State>(io);  // shared with the handler of the deadline
  state->pipe.assign(ends[0]);
  pid_t pid = 0;
  const int spawned = spawn(command, ends[1], pid);
  ::close(ends[1]);
  if (spawned != 0) co_return failed(std::generic_category().message(spawned));
  Child child(pid);
  state->deadline.expires_after(command.timeout);
  state->deadline.async_wait([state](const net::error_code& ec) {
    if (ec) return;
    state->late = true;
    state->timer.cancel();
    net::error_code ignored;
    (void)state->pipe.close(ignored);
  });

  std::string output;
  std::string chunk(4096, '\0');
  for (;;) {
    auto [ec, size] = co_await state->pipe.async_read_some(boost::asio::buffer(chunk), net::as_result);
    output.append(chunk, 0, size);
    if (ec || output.size() > command.output_limit_bytes) break;
  }
  // The end of its output is usually the end of the child, which has no event of its own.
  while (!state->late && output.size() <= command.output_limit_bytes && !child.poll()) {
    state->timer.expires_after(std::chrono::milliseconds(5));
    (void)co_await state->timer.async_wait(net::as_result);
  }
  state->deadline.cancel();
  const auto status = child.poll();
  if (state->late) co_return failed("not finished in time", Errc::timeout);
  if (output.size() > command.output_limit_bytes) co_return failed("prints too much", Errc::too_large);
  if (!status || *status != 0) co_return failed(status ? describe(*status) : "still running");
  co_return output;
}

}  // namespace warmroute::kube
