// Any bytes as a snapshot of the prefix index, as they are and with a right checksum: no crash, and what is read is
// what was written.
#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "prefix/snapshot.hpp"

namespace {

using namespace warmroute;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(std::string_view bytes) {
  const auto snapshot = prefix::decode_snapshot(bytes);
  if (!snapshot) {
    require(!snapshot.error().detail.empty());
    return;
  }
  for (const auto& pod : snapshot->pods)
    for (const auto& block : pod.blocks) require(block.model < snapshot->models.size());
  // Flags that mean nothing yet are not kept, so the bytes may differ there; the second reading may not.
  const std::string again = prefix::encode_snapshot(*snapshot);
  require(again.size() == bytes.size());
  const auto back = prefix::decode_snapshot(again);
  require(back && back->seed == snapshot->seed && back->models == snapshot->models &&
          back->pods.size() == snapshot->pods.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  check(bytes);
  if (size < sizeof(std::uint64_t)) return 0;
  const std::uint64_t sum = XXH3_64bits(bytes.data(), size - sizeof sum);
  std::memcpy(bytes.data() + size - sizeof sum, &sum, sizeof sum);
  check(bytes);
  return 0;
}
