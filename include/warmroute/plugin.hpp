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
#include "warmroute/value.hpp"

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

/// A filter that removes pods by `in_flight` alone, beside FilterPlugin. The router reserves a slot together with the
/// pick, so that the limit holds however many requests choose at once, and lets a request wait when every pod that
/// could serve it is at its limit.
class InFlightLimit : public virtual Plugin {
 public:
  /// Requests that this router may have open to one pod at once; above 0, always the same.
  [[nodiscard]] virtual std::int64_t max_in_flight() const noexcept = 0;
};

class ScorePlugin : public virtual Plugin {
 public:
  /// Fills scores[i], 0..100 by convention; they arrive as 0. The pipeline multiplies by the weight and adds
  /// up, unclamped.
  /// \return false when the plugin has nothing to say about this request (all scores then count as 0).
  virtual bool score(const RequestView& request, RequestState* state, std::span<const PodView> pods,
                     std::span<std::int64_t> scores) const = 0;
  /// Why score() would say what it would say about these pods now, for a debug page: a mapping, or null. Changes
  /// nothing and counts nothing. Called on the control thread.
  [[nodiscard]] virtual Value explain(const RequestView&, std::span<const PodView>) const { return {}; }
};

/// A plugin that knows what the caches of pods hold.
class KnowsPrefix : public virtual Plugin {
 public:
  /// How many bytes at the begin of `request.prompt` the pod's cache holds, as far as is known; rather too few than too
  /// many. Called after score() for the request, and only where an option asks for it.
  [[nodiscard]] virtual std::size_t held_bytes(const RequestView& request, RequestState* state, PodId pod) const = 0;
};

class PostRequest : public virtual Plugin {
 public:
  /// Exactly once for each attempt, on its worker, after its in-flight guard was released. When the connection could
  /// not be made, `outcome` has no status.
  /// The pod may have left meanwhile; then this must change nothing. Of `request` only the model is still there: the
  /// router frees a prompt as soon as it can no longer be retried, so keep in RequestState what is needed here.
  virtual void attempt_done(const RequestView& request, RequestState* state, PodId pod,
                            const Outcome& outcome) noexcept = 0;
  /// Whether attempt_started() and first_byte() are to be called; asked once, at start.
  [[nodiscard]] virtual bool follows_attempts() const noexcept { return false; }
  /// The pod was chosen and is about to be called; attempt_done() for it follows. On the request's worker.
  virtual void attempt_started(const RequestView&, RequestState*, PodId) noexcept {}
  /// The pod's 2xx answer has begun and can no longer be given by another pod. Of the request only the model is left.
  virtual void first_byte(const RequestView&, RequestState*, PodId) noexcept {}
};

}  // namespace warmroute
