// libFuzzer: byte 0 chooses protocol, kind of body and removal, byte 1 the size of the pieces. Every split gives the
// same bytes and the same usage; without removal the bytes are the input.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "openai/usage_scanner.hpp"

namespace {

using namespace warmroute::openai;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Result {
  std::string out;
  Usage usage;
  bool terminated = false;
};

Result run(UsageScanner scanner, std::string_view text, std::size_t piece) {
  Result result;
  std::vector<std::string_view> views;
  const auto take = [&] {
    for (const std::string_view view : views) result.out.append(view);
    views.clear();
  };
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string copy(text.substr(at, piece));
    scanner.feed(copy, views);
    take();
  }
  scanner.finish(views);
  take();
  result.usage = scanner.usage();
  result.terminated = scanner.terminated();
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto protocol = static_cast<Protocol>((data[0] & 3U) % 3);
  const auto kind = static_cast<BodyKind>((data[0] >> 2U & 3U) % 3);
  const bool remove = (data[0] & 0x10U) != 0;
  const UsageScanner scanner(protocol, kind, remove);
  const Result whole = run(scanner, text, text.size() + 1);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{data[1]} + 1}) {
    const Result split = run(scanner, text, piece);
    require(split.out == whole.out);
    require(split.terminated == whole.terminated);
    require(split.usage.seen == whole.usage.seen);
    require(split.usage.prompt_tokens == whole.usage.prompt_tokens);
    require(split.usage.completion_tokens == whole.usage.completion_tokens);
    require(split.usage.total_tokens == whole.usage.total_tokens);
    require(split.usage.cached_tokens == whole.usage.cached_tokens);
  }
  if (!remove || kind != BodyKind::event_stream) require(whole.out == text);
  require(whole.out.size() <= text.size());
  return 0;
}
