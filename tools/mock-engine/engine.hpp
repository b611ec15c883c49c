#pragma once
// The engine's state: queues and caches per data-parallel rank, adapters, counters, metrics text, /control.
// One thread, no locks. Time is a parameter.

#include <array>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "block_cache.hpp"
#include "faults.hpp"
#include "options.hpp"
#include "request.hpp"

namespace warmroute::mock {

using Clock = std::chrono::steady_clock;

struct Histogram {
  std::array<std::uint64_t, 12> counts{};  ///< not cumulative; the last is +Inf
  double sum = 0;
  std::uint64_t count = 0;
  void observe(double seconds);
};

/// A request's place in a rank: first waiting, then running. Leaves by its destructor.
class Slot {
 public:
  /// `wake` is called when a waiting request starts to run; not from inside the constructor.
  Slot(class Engine& engine, std::function<void()> wake);
  ~Slot();
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  [[nodiscard]] bool running() const noexcept { return running_; }

 private:
  friend class Engine;
  class Engine& engine_;
  std::function<void()> wake_;
  std::size_t rank_ = 0;
  std::size_t used_blocks_ = 0;
  bool running_ = false;
};

struct Prefill {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;
  Clock::time_point done;  ///< when the first token is ready
};

struct Counters {
  std::uint64_t requests = 0;  ///< API requests, also failing ones; not /control, /metrics, /health, model lists
  std::uint64_t in_flight = 0;
  std::uint64_t cancelled = 0;  ///< the client closed before the end of the answer
  std::uint64_t finished = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::uint64_t query_tokens = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t connections = 0;
  std::uint64_t protocol_errors = 0;  ///< requests refused for their part in a prefill/decode pair
};

class Engine {
 public:
  explicit Engine(Options options);

  [[nodiscard]] const Options& options() const noexcept { return options_; }
  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }
  void set_name(std::string name) { options_.name = std::move(name); }
  Counters counters;
  Request last_request;

  [[nodiscard]] bool serves(std::string_view model) const;
  [[nodiscard]] Reply list_models() const;
  Reply load_adapter(std::string_view body);
  Reply unload_adapter(std::string_view body);

  /// Looks the prompts up in the cache of the slot's rank and reserves prefill time; the slot must be running.
  Prefill prefill(Slot& slot, std::string_view model, const std::vector<std::string>& prompts, Clock::time_point now);
  /// Makes the blocks of prompt plus answer reusable.
  void keep_blocks(const Slot& slot, std::string_view model, std::string_view text);
  void first_token(double seconds_since_arrival) { ttft_.observe(seconds_since_arrival); }
  void token_gap(double seconds) { tpot_.observe(seconds); }

  [[nodiscard]] std::string metrics() const;
  /// Fault set through /control for this path, used up by one.
  Fault take_fault(std::string_view path);
  Reply control(const Request& request);

 private:
  friend class Slot;
  struct Rank {
    explicit Rank(std::size_t blocks) : cache(blocks) {}
    BlockCache cache;
    std::vector<Slot*> running;
    std::deque<Slot*> waiting;
    std::size_t used_blocks = 0;
    Clock::time_point prefill_free;
  };
  struct SetFault {
    Fault fault;
    std::string path;         ///< empty: every generating path
    std::int64_t count = -1;  ///< -1: until cleared
  };
  struct Overrides {  ///< per rank; empty: the real value
    std::vector<double> running, waiting, kv_usage;
    std::optional<std::pair<double, double>> ttft, tpot;  ///< sum, count
    std::optional<std::string> metrics_text;
  };

  void enter(Slot& slot);
  void leave(Slot& slot);
  void append_gauge(std::string& out, std::string_view name, const std::function<double(std::size_t)>& value) const;
  void append_counter(std::string& out, std::string_view name, double value) const;
  void append_histogram(std::string& out, std::string_view name, const Histogram& histogram,
                        const std::optional<std::pair<double, double>>& set) const;
  [[nodiscard]] std::string labels(std::size_t rank) const;
  [[nodiscard]] double running_of(std::size_t rank) const;
  [[nodiscard]] double waiting_of(std::size_t rank) const;
  [[nodiscard]] double kv_usage_of(std::size_t rank) const;
  [[nodiscard]] std::string state_json() const;
  std::string apply_control(std::string_view body);

  Options options_;
  std::vector<Rank> ranks_;
  std::vector<SetFault> faults_;
  Overrides overrides_;
  Histogram ttft_, tpot_;
  double start_time_;
};

}  // namespace warmroute::mock
