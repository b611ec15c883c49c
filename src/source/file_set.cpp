#include "source/file_set.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace warmroute::source {
namespace {

namespace fs = std::filesystem;

/// A little above what the YAML reader takes, so that a file that is too large gets the reader's message.
constexpr std::size_t max_file_bytes = (16U << 20U) + 1;

std::string error_text(int number) { return std::generic_category().message(number); }

/// Empty on success, else the reason.
std::string read_whole(const std::string& name, std::string& text) {
  // Non-blocking, so that a FIFO does not hold the thread before it is refused.
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return error_text(errno);
  std::string problem;
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    problem = error_text(errno);
  } else if (!S_ISREG(status.st_mode)) {
    problem = "not a regular file";
  }
  constexpr std::size_t chunk_bytes = 64U << 10U;
  while (problem.empty() && text.size() < max_file_bytes) {
    const std::size_t before = text.size();
    text.resize(before + chunk_bytes);
    const ssize_t count = ::read(descriptor, text.data() + before, chunk_bytes);
    text.resize(before + (count > 0 ? static_cast<std::size_t>(count) : 0));
    if (count == 0) break;
    if (count < 0 && errno != EINTR) problem = error_text(errno);
  }
  ::close(descriptor);
  return problem;
}

bool is_resource_name(const std::string& name) {
  if (name.empty() || name.front() == '.') return false;
  const std::string extension = fs::path(name).extension().string();
  return extension == ".yaml" || extension == ".yml";
}

/// Sorted paths of the files in a folder.
std::vector<std::string> list_folder(const std::string& path, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (!is_resource_name(it->path().filename().string())) continue;
    std::error_code ignored;  // a link to nothing is reported when it is read
    if (it->is_directory(ignored)) continue;
    names.push_back(it->path().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Warns of objects that an earlier file defines too; within one file the reader has done that.
class DuplicateFinder {
 public:
  DuplicateFinder(const FileSet& set, config::Diagnostics& diagnostics) : set_(set), diagnostics_(diagnostics) {}

  template <class T>
  void look(const std::vector<T>& objects, const char* kind) {
    std::unordered_map<std::string, std::size_t> seen;
    for (const T& object : objects) {
      const auto file = static_cast<std::size_t>(object.meta.position >> position_bits_per_file);
      const auto [it, added] = seen.emplace(object.meta.key(), file);
      if (added || it->second == file) continue;
      diagnostics_.push_back({config::Diagnostic::Severity::warning, set_.files[file].name, 0, 0, "",
                              std::string(kind) + " " + object.meta.key() + " is also defined in " +
                                  set_.files[it->second].name + "; this definition is used"});
      it->second = file;
    }
  }

 private:
  const FileSet& set_;
  config::Diagnostics& diagnostics_;
};

}  // namespace

FileSet read_file_set(const std::string& path) {
  FileSet set;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  std::vector<std::string> names{path};
  if (!fs::exists(status)) {
    set.error = error ? error.message() : error_text(ENOENT);
    set.error_file = path;
    return set;
  }
  if (fs::is_directory(status)) {
    names = list_folder(path, error);
    if (error) {
      set.error = error.message();
      set.error_file = path;
      return set;
    }
  }
  for (std::string& name : names) {
    FileSet::File file{std::move(name), {}};
    if (std::string problem = read_whole(file.name, file.text); !problem.empty()) {
      set.error = std::move(problem);
      set.error_file = std::move(file.name);
      set.files.clear();
      return set;
    }
    set.files.push_back(std::move(file));
  }
  return set;
}

ParsedSet parse_file_set(const FileSet& set, const std::string& path) {
  ParsedSet parsed;
  if (!set.error.empty()) {
    parsed.diagnostics.push_back(
        {config::Diagnostic::Severity::error, set.error_file, 0, 0, "", "cannot be read: " + set.error});
    return parsed;
  }
  if (set.files.empty()) {
    parsed.diagnostics.push_back(
        {config::Diagnostic::Severity::warning, path, 0, 0, "", "the folder has no *.yaml or *.yml file"});
  }
  for (std::size_t i = 0; i < set.files.size(); ++i) {
    const auto base = static_cast<std::uint64_t>(i) << position_bits_per_file;
    config::parse_resource_documents(set.files[i].text, set.files[i].name, base, parsed.documents, parsed.diagnostics);
  }
  if (config::has_errors(parsed.diagnostics)) {
    parsed.documents = {};
    return parsed;
  }
  DuplicateFinder duplicates(set, parsed.diagnostics);
  duplicates.look(parsed.documents.routes, "ModelRoute");
  duplicates.look(parsed.documents.servers, "ModelServer");
  duplicates.look(parsed.documents.pods, "Pod");
  duplicates.look(parsed.documents.static_pods, "StaticPods");
  return parsed;
}

}  // namespace warmroute::source
