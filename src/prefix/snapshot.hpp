#pragma once
// The index as bytes, to be read by the next process. Pure: files are the caller's business.
//
// Layout, little endian: magic "wrPREFIX", u32 version, u32 block bytes, u32 flags (1: tools are hashed), u64 seed,
// i64 Unix seconds, u32 models, u32 pods; each model: u32 length, bytes; each pod: u32 length, incarnation, u32
// entries, each entry: u64 hash, u16 model; at the end XXH3_64 of all before.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "prefix/index.hpp"
#include "warmroute/result.hpp"

namespace warmroute::prefix {

struct Snapshot {
  struct Pod {
    std::string incarnation;
    std::vector<StoredBlock> blocks;  ///< most recently used first
  };
  std::uint32_t block_bytes = 0;
  bool tools_hashed = true;
  std::uint64_t seed = 0;           ///< of the chain; hashes mean nothing without it
  std::int64_t written_at = 0;      ///< Unix seconds
  std::vector<std::string> models;  ///< by the number that entries carry
  std::vector<Pod> pods;
};

[[nodiscard]] std::string encode_snapshot(const Snapshot& snapshot);
/// Takes any bytes; memory is in proportion to them. Error: why they are no snapshot of this version. An entry whose
/// model is not in the list is an error too.
[[nodiscard]] Result<Snapshot> decode_snapshot(std::string_view bytes);

}  // namespace warmroute::prefix
