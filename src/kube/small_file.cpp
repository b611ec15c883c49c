#include "kube/small_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace warmroute::kube {
namespace {

Error failed(int number) {
  return Error{Errc::io, Source::internal, Retry::never, std::generic_category().message(number)};
}

}  // namespace

Result<std::string> read_small_file(const std::string& path) {
  // Non-blocking: a FIFO must not hold the thread.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return failed(errno);
  std::string text;
  constexpr std::size_t chunk_bytes = 16U << 10U;
  Result<std::string> result = std::string();
  for (;;) {
    const std::size_t before = text.size();
    if (before > small_file_limit_bytes) {
      result = failed(EFBIG);
      break;
    }
    text.resize(before + chunk_bytes);
    const ssize_t count = ::read(descriptor, text.data() + before, chunk_bytes);
    text.resize(before + (count > 0 ? static_cast<std::size_t>(count) : 0));
    if (count < 0 && errno == EINTR) continue;
    if (count > 0) continue;
    if (count == 0) {
      result = std::move(text);
    } else {
      result = failed(errno);
    }
    break;
  }
  ::close(descriptor);
  return result;
}

std::string trimmed(const std::string& text) {
  constexpr const char* white = " \t\r\n";
  const auto first = text.find_first_not_of(white);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

}  // namespace warmroute::kube
