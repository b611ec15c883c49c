#pragma once
// What a plugin may see of a pod.

#include <chrono>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace warmroute {

/// One incarnation of a pod: namespace/name plus UID plus start of the engine. Never used again once the
/// pod left. `slot` is dense and reused (an array index); `generation` tells its users apart and starts at 1,
/// so a default PodId names no pod.
struct PodId {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  friend auto operator<=>(const PodId&, const PodId&) = default;
};

/// Engine metrics of one scrape. Plugins see a sample only while it is fresh.
struct LoadSample {
  double running = 0;       ///< requests the engine is working on
  double waiting = 0;       ///< requests queued in the engine
  double kv_usage = 0;      ///< used share of the KV cache, 0..1
  double ttft_seconds = 0;  ///< time to first token, average of the last interval; 0: never measured
  double tpot_seconds = 0;  ///< time per output token, likewise
};

/// What an engine says of itself.
struct EngineFacts {
  /// The same text means the same incarnation, also for another router process: namespace/name, UID and the start of
  /// container or engine. Empty where no start is known.
  std::string incarnation;
  std::int64_t kv_tokens = 0;  ///< tokens that its KV cache holds, all ranks; 0: unknown
};

struct PodView {
  PodId id;
  std::string_view name;           ///< namespace/name
  std::int64_t in_flight = 0;      ///< requests this router has open to the pod, all workers; never negative
  std::optional<LoadSample> load;  ///< empty: unknown, which is not idle
  std::span<const std::string> loaded_models;  ///< last list of /v1/models, kept when stale
};

}  // namespace warmroute
