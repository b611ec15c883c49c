// libFuzzer: bytes 0 and 1 are limit and piece size, the rest a gzip body. Pieces decode as the whole does, and never
// to more than the limit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/inflate.hpp"

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warmroute::http;
  if (size < 2) return 0;
  const std::size_t limit = std::size_t{1} << (data[0] % 20U);
  const std::size_t piece = std::size_t{data[1]} + 1;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  std::string whole;
  const InflateResult result = gunzip(body, limit, 64, whole);
  require(whole.size() <= limit);
  GzipDecoder decoder(limit);
  std::string split;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    const std::string copy(body.substr(at, piece));
    (void)decoder.feed(copy, split);  // finish() repeats a failure
  }
  require(decoder.finish() == result);
  require(split == whole);
  return 0;
}
