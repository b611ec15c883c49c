#pragma once
// Reads the file or folder of --resources and turns it into documents. Blocking; for the follower's own thread and
// --check. Nothing here throws.

#include <string>
#include <vector>

#include "config/diagnostic.hpp"
#include "config/resource_docs.hpp"

namespace warmroute::source {

/// What stands on disk: all files with their texts, or why they cannot be read.
struct FileSet {
  struct File {
    std::string name;
    std::string text;
    friend bool operator==(const File&, const File&) = default;
  };
  std::vector<File> files;        ///< in order of their names
  std::string error, error_file;  ///< `error` not empty: something could not be read; `files` do not count
  friend bool operator==(const FileSet&, const FileSet&) = default;
};

/// `path` is a file, or a folder whose *.yaml and *.yml that do not start with a dot are read (symbolic links are
/// followed, sub-folders are not).
[[nodiscard]] FileSet read_file_set(const std::string& path);

/// ObjectMeta::position holds the number of the file above these bits, the place in the file below.
inline constexpr unsigned position_bits_per_file = 32;

struct ParsedSet {
  config::ResourceDocuments documents;  ///< complete, or empty when `diagnostics` have errors
  config::Diagnostics diagnostics;
};
[[nodiscard]] ParsedSet parse_file_set(const FileSet& set, const std::string& path);

}  // namespace warmroute::source
