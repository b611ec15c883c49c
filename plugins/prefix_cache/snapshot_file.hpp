#pragma once
// A file that is there whole or not at all, and for its owner only.

#include <string>
#include <string_view>

#include "warmroute/result.hpp"

namespace warmroute::plugins {

/// Writes beside `path`, syncs, renames over it, syncs the folder; mode 0600. Error: what failed, and why.
[[nodiscard]] Result<void> write_whole_file(const std::string& path, std::string_view bytes);

struct FileRead {
  bool exists = false;
  std::string bytes;
};
/// A file that is not there is no error.
[[nodiscard]] Result<FileRead> read_whole_file(const std::string& path);

}  // namespace warmroute::plugins
