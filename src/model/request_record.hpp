#pragma once
// What is known about one request, filled in along its path and read once at its end by the metrics and the
// access log. Owned by the request; the views point into the request's own buffers or its snapshot.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "warmroute/request_view.hpp"

namespace warmroute::model {

/// The `path` label (decision 6): the client cannot make a series.
enum class PathLabel : std::uint8_t {
  chat_completions,
  completions,
  responses,
  messages,
  embeddings,
  rerank,
  score,
  models,
  audio_speech,
  other
};
[[nodiscard]] PathLabel path_label(std::string_view decoded_path) noexcept;
/// "/v1/chat/completions" and so on, or "other".
[[nodiscard]] std::string_view name(PathLabel label) noexcept;
inline constexpr std::size_t path_label_count = 10;

struct RequestRecord {
  using Steady = std::chrono::steady_clock;

  // Arrival
  std::chrono::system_clock::time_point arrived_at;
  Steady::time_point started;
  std::string_view method;
  std::string_view path;      ///< decoded, without query
  std::string_view protocol;  ///< "HTTP/1.1"
  std::string_view request_id;
  PathLabel path_label = PathLabel::other;

  // Parsing
  std::string_view model;  ///< as the client wrote it; empty while unknown
  /// `model` when a ModelRoute declares it, else "unknown": the only value metrics may use.
  std::string_view model_label = "unknown";
  std::int64_t input_tokens = 0;
  bool counted = false;  ///< body and model were read, or refused while parsing: counts in requests_total

  // Routing
  std::string_view model_route;  ///< ns/name, empty when unbound
  std::string_view model_server;
  std::string_view upstream_model;
  bool bound = false;        ///< a ModelServer was chosen: backend_type model_server
  std::string selected_pod;  ///< the pod that answered, else the last tried (name only)
  std::string prefill_pod;   ///< the last prefill pod that was asked; empty without a prefill/decode pair
  int upstream_status = 0;
  int upstream_attempts = 0;

  // End
  int status = 0;               ///< what the client got; 499 when it left before the head
  std::string_view error_type;  ///< access log `error.type`; empty: no error. A literal.
  std::string error_message;
  std::string_view error_origin;  ///< "upstream", "router" or empty
  /// requests_total's error_type when it is not the default of the status; empty: default. A literal.
  std::string_view metric_error_type;
  std::int64_t output_tokens = 0;
  Outcome::End end = Outcome::End::complete;

  // Marks; a default time_point means the mark was not reached (spec 17.3)
  Steady::time_point parsed, upstream_started, upstream_ended, finished;
};

}  // namespace warmroute::model
