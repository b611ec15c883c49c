#include "prefix_cache/snapshot_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <new>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace warmroute::plugins {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int of) noexcept : fd_(of) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { (void)close(); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }
  bool close() noexcept {
    const int fd = std::exchange(fd_, -1);
    return fd < 0 || ::close(fd) == 0;
  }

 private:
  int fd_;
};

Error failed(const std::string& what, const std::string& path) {
  const int number = errno;
  return Error{Errc::io, Source::internal, Retry::never,
               what + " " + path + ": " + std::generic_category().message(number)};
}

bool write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

/// The new name must survive a power cut as well.
void sync_folder(const std::string& path) noexcept {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const Descriptor dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.open()) (void)::fsync(dir.get());  // some file systems refuse it for folders
}

}  // namespace

Result<void> write_whole_file(const std::string& path, std::string_view bytes) {
  const std::string draft = path + ".tmp";
  (void)::unlink(draft.c_str());  // of a process that was killed while it wrote
  Descriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.open()) return failed("cannot create", draft);
  const bool written = write_all(file.get(), bytes) && ::fsync(file.get()) == 0 && file.close();
  if (!written || ::rename(draft.c_str(), path.c_str()) != 0) {
    const Error error = failed(written ? "cannot rename" : "cannot write", draft);
    (void)::unlink(draft.c_str());
    return error;
  }
  sync_folder(path);
  return {};
}

Result<FileRead> read_whole_file(const std::string& path) {
  FileRead read;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // no waiting for a pipe's writer
  if (!file.open() && errno == ENOENT) return read;
  if (!file.open()) return failed("cannot open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return failed("cannot read", path);
  if (!S_ISREG(info.st_mode)) return Error{Errc::io, Source::internal, Retry::never, path + " is not a regular file"};
  read.exists = true;
  constexpr std::uintmax_t limit = std::uintmax_t{4} << 30U;  // some hundred pods with a million entries each
  if (static_cast<std::uintmax_t>(info.st_size) > limit)
    return Error{Errc::io, Source::internal, Retry::never, path + " is larger than any snapshot"};
  try {
    read.bytes.resize(static_cast<std::size_t>(info.st_size));
  } catch (const std::bad_alloc&) {
    return Error{Errc::io, Source::internal, Retry::never, path + " does not fit into memory"};
  }
  std::size_t have = 0;
  while (have < read.bytes.size()) {
    const ssize_t got = ::read(file.get(), read.bytes.data() + have, read.bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("cannot read", path);
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  read.bytes.resize(have);
  return read;
}

}  // namespace warmroute::plugins
