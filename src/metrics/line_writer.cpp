#include "metrics/line_writer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

namespace warmroute::metrics {
namespace {

int open_file(const std::string& path) { return ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644); }

bool can_stall(int descriptor) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return false;
  return S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || ::isatty(descriptor) == 1;
}

}  // namespace

LineWriter::LineWriter(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor), may_stall_(can_stall(descriptor)) {}

LineWriter::LineWriter(LineWriter&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)),
      may_stall_(other.may_stall_),
      inside_line_(other.inside_line_) {}

LineWriter::~LineWriter() {
  if (!path_.empty() && descriptor_ >= 0) ::close(descriptor_);
}

Result<LineWriter> LineWriter::open(const std::string& output) {
  if (output == "stdout") return LineWriter({}, STDOUT_FILENO);
  if (output == "stderr") return LineWriter({}, STDERR_FILENO);
  const int descriptor = open_file(output);
  if (descriptor < 0) {
    const int error = errno;
    return Error{Errc::io, Source::internal, Retry::never,
                 "failed to open access log file " + output + ": open " + output + ": " + std::strerror(error)};
  }
  return LineWriter(output, descriptor);
}

Result<void> LineWriter::reopen() {
  if (path_.empty()) return {};
  auto fresh = open(path_);
  if (!fresh) return fresh.error();
  std::swap(descriptor_, fresh->descriptor_);  // the old one is closed with `fresh`
  may_stall_ = fresh->may_stall_;
  inside_line_ = false;
  return {};
}

std::uint64_t LineWriter::write(std::string_view lines, const std::function<bool()>& give_up) {
  if (inside_line_) {
    std::string_view newline = "\n";  // so that the fragment does not spoil the next line
    if (write_all(newline, give_up)) inside_line_ = false;
  }
  std::string_view rest = lines;
  if (!inside_line_ && write_all(rest, give_up)) return 0;
  const auto lost = std::count(rest.begin(), rest.end(), '\n');
  const std::size_t written = lines.size() - rest.size();
  if (written != 0) inside_line_ = lines[written - 1] != '\n';
  return static_cast<std::uint64_t>(lost);
}

bool LineWriter::write_all(std::string_view& rest, const std::function<bool()>& give_up) {
  while (!rest.empty()) {
    std::size_t size = rest.size();
    if (may_stall_) {
      pollfd ready{descriptor_, POLLOUT, 0};
      const int count = ::poll(&ready, 1, 100);
      if (count == 0 && give_up()) return false;
      if (count <= 0) {
        if (count < 0 && errno != EINTR) return false;
        continue;
      }
      size = std::min<std::size_t>(size, PIPE_BUF);  // as much as a writable pipe takes without blocking
    }
    const ssize_t written = ::write(descriptor_, rest.data(), size);
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      may_stall_ = true;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace warmroute::metrics
