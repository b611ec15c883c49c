#pragma once
// The arguments of prefix-cache.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "warmroute/plugin_registry.hpp"

namespace warmroute::plugins {

/// When a prompt's blocks are recorded for a pod.
enum class RecordOn : std::uint8_t { response, first_byte, dispatch };

struct PrefixCacheSettings {
  std::size_t block_bytes = 64;
  std::size_t max_blocks = 128;
  std::size_t capacity = 50000;  ///< with auto_capacity until a pod's own is known
  std::size_t top_k = 5;
  bool auto_capacity = false;
  bool include_tools = true;
  bool learn_from_usage = false;
  RecordOn record_on = RecordOn::response;
  std::string snapshot;  ///< path; empty: none
  std::chrono::seconds snapshot_period{120};
};

/// The four arguments of the Go router fall back together, with its log line; each of ours falls back alone, with a
/// warning that names it and the value. Unknown names are warned of.
[[nodiscard]] PrefixCacheSettings read_prefix_cache_settings(const Args& args, Host& host);

}  // namespace warmroute::plugins
