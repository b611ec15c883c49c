#pragma once
// A folder that lives as long as the object.

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace warmroute::test {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "warmroute-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;  // nothing to do about it in a destructor
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  void write(const std::string& name, const std::string& text) const { std::ofstream(path_ / name) << text; }
  /// As editors and kubelet do it: another file is put in its place.
  void replace(const std::string& name, const std::string& text) const {
    write("." + name + ".new", text);
    std::filesystem::rename(path_ / ("." + name + ".new"), path_ / name);
  }

 private:
  std::filesystem::path path_;
};

}  // namespace warmroute::test
