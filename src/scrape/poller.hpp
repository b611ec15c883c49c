#pragma once
// Scrapes every pod on its own timer (decision 3.15): /metrics each interval, /v1/models less often, /health for
// static pods every 2 s. One scrape in flight per pod; a hanging pod delays no other. Control thread.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/store.hpp"
#include "net/task.hpp"
#include "net/tls.hpp"

namespace warmroute::scrape {

struct PollerOptions {
  std::chrono::milliseconds interval{1000};  ///< METRICS_SCRAPE_INTERVAL
  std::chrono::milliseconds timeout{2000};   ///< whole exchange
  std::chrono::milliseconds models_interval{5000};
  std::chrono::milliseconds health_interval{2000};
  std::size_t body_limit_bytes = 8U << 20U;
  std::size_t concurrent_exchanges = 100;  ///< of all pods together; the others wait their turn
};

struct PollerHooks {
  std::function<void(PodId, std::vector<std::string>)> models;
  std::function<void(PodId, bool)> reachable;  ///< static pods only; after three failures, after one success
  std::function<void(PodId, double)> process_start;
  /// At the first page of metrics that was read, and when the number changed; after process_start. Tokens of KV
  /// cache, 0: not among the metrics.
  std::function<void(PodId, std::int64_t)> kv_tokens;
  /// For metrics: ok or not, per pod ("ns/name"), at each scrape's end. Ok: 200 with running and waiting in it.
  std::function<void(const model::PodRecord&, bool ok)> scraped;
  std::function<void()> first_round_done;  ///< once, when it becomes true
};

class Poller {
 public:
  /// \param tls for https targets, outlives the poller. Null: such targets fail, they are never asked in clear text.
  /// Hooks may call set_targets.
  Poller(net::io_context& control, PollerOptions options, const net::ClientTls* tls, PollerHooks hooks);
  /// Cancels every exchange; no hook is called any more. May run before or after the io_context has ended.
  ~Poller();
  /// New list of pods: added ones are scraped at once, removed ones are dropped (their exchange is cancelled).
  void set_targets(const std::vector<model::ScrapeTarget>& targets);
  /// True when each pod of the first list was scraped once, successfully or not (readiness, decision 3.6).
  [[nodiscard]] bool first_round_done() const noexcept;
  /// The data path reports a failed connect to a static pod (counts towards the three). Control thread.
  void connect_failed(PodId pod);

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the loops of the pods, which end a moment after their cancellation
};

}  // namespace warmroute::scrape
