#pragma once
// The plugin contract. One object may have several roles; the pipeline finds them once, at start.
// Filters and scorers run on a worker thread for every request: they do not wait, allocate little and keep no view.
// The same object is used by all workers at once, so whatever it changes in score() or attempt_done() is its own
// to protect.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "warmroute/pod_view.hpp"
#include "warmroute/request_view.hpp"

namespace warmroute {

/// What one plugin remembers about one request between score() and attempt_done(), e.g. its block hashes.
struct RequestState {
  virtual ~RequestState() = default;
};

class Plugin {
 public:
  virtual ~Plugin() = default;
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// One per request, owned by the request, passed back to every call for it. May be null.
  [[nodiscard]] virtual std::unique_ptr<RequestState> new_state() const { return nullptr; }
  /// How many bytes of the prompt text the plugin wants to see; the router does not render more than the
  /// largest wish of all enabled plugins.
  [[nodiscard]] virtual std::size_t prompt_bytes_wanted() const noexcept { return 0; }
};

class FilterPlugin : public virtual Plugin {
 public:
  /// Clears keep[i] for each pod that must not serve this request; never sets it. Sizes are equal.
  virtual void filter(const RequestView& request, RequestState* state, std::span<const PodView> pods,
                      std::span<bool> keep) const = 0;
};

class ScorePlugin : public virtual Plugin {
 public:
  /// Fills scores[i], 0..100 by convention; they arrive as 0. The pipeline multiplies by the weight and adds
  /// up, unclamped.
  /// \return false when the plugin has nothing to say about this request (all scores then count as 0).
  virtual bool score(const RequestView& request, RequestState* state, std::span<const PodView> pods,
                     std::span<std::int64_t> scores) const = 0;
};

class PostRequest : public virtual Plugin {
 public:
  /// Exactly once for each attempt that was sent, on its worker, after its in-flight guard was released.
  /// The pod may have left meanwhile; then this must change nothing. Of `request` only the model is still there: the
  /// router frees a prompt as soon as it can no longer be retried, so keep in RequestState what is needed here.
  virtual void attempt_done(const RequestView& request, RequestState* state, PodId pod,
                            const Outcome& outcome) noexcept = 0;
};

}  // namespace warmroute
