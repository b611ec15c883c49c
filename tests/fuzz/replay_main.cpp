// Runs a fuzz target on every file of the given folders; fails when there is none.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  std::size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      std::ifstream in(entry.path(), std::ios::binary);
      const std::string bytes{std::istreambuf_iterator<char>(in), {}};
      // A copy of exactly this size on the heap, so that a sanitizer sees a read past the end.
      const std::vector<std::uint8_t> input(bytes.begin(), bytes.end());
      if (LLVMFuzzerTestOneInput(input.data(), input.size()) != 0) {
        std::cerr << entry.path() << ": refused\n";
        return 1;
      }
      ++files;
    }
  }
  std::cout << files << " inputs\n";
  return files == 0 ? 1 : 0;
}
