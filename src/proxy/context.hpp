#pragma once
// What requests share: settings and services of the process (Shared), and what belongs to one worker
// (WorkerContext). Built by app/wiring.cpp; outlives every session.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "http/message_parser.hpp"
#include "metrics/access_log.hpp"
#include "metrics/request_metrics.hpp"
#include "model/pod_record.hpp"
#include "net/server_tls.hpp"
#include "net/worker.hpp"
#include "route/table.hpp"
#include "schedule/pipeline.hpp"
#include "upstream/pool.hpp"

namespace warmroute::proxy {

class Session;
class WaitQueues;

struct Settings {
  bool compat = false;
  bool forwarded_headers = false;
  bool half_close_answers = false;
  bool metrics_on_router_port = false;
  std::chrono::milliseconds connect_timeout{5000}, response_header_timeout{3600000}, stream_idle_timeout{600000},
      total_timeout{0}, client_head_timeout{15000}, client_body_timeout{30000}, client_idle_timeout{120000},
      client_write_timeout{60000}, upstream_idle_timeout{4000};
  std::uint64_t max_head_bytes = 64 * 1024, max_body_bytes = 64ULL << 20U, max_buffered_bytes = 1ULL << 30U;
  /// A decode pod that has to compute at most so many tokens of a prompt works alone; 0: never.
  std::int64_t pd_threshold_tokens = 0;
  std::chrono::milliseconds sample_max_age{5000};  ///< older load samples are unknown (decision 3.15)
  model::BreakerPolicy breaker;
};

/// Counters of our own beside the drop-in families.
struct ProxyCounters {
  metrics::Counter* retries = nullptr;  ///< attempts after the first
  metrics::Counter* fresh_connection_retries = nullptr;
  metrics::Counter* connects = nullptr;          ///< new connections to engines
  metrics::Counter* outcome_complete = nullptr;  ///< warmroute_attempts_total{outcome=...}
  metrics::Counter* outcome_failed = nullptr;
  metrics::Counter* outcome_cut = nullptr;
  metrics::Counter* outcome_client_left = nullptr;
  metrics::Counter* pd_decode_alone = nullptr;  ///< decode pods that were asked without a prefill pod
  metrics::Counter* refused_heads = nullptr;    ///< answered before a head was understood
};

struct Shared {
  Settings settings;
  ProxyCounters counters;
  schedule::Pipeline* pipeline = nullptr;
  metrics::RequestMetrics* metrics = nullptr;
  metrics::AccessLog* access_log = nullptr;    ///< null: disabled
  metrics::Registry* registry = nullptr;       ///< for --expose-metrics-on-router-port
  const net::ServerTls* server_tls = nullptr;  ///< null: clear text
  const net::ClientTls* client_tls = nullptr;
  WaitQueues* queues = nullptr;
  std::function<void(PodId)> connect_failed;  ///< any thread
  /// Any thread. May be empty.
  std::function<void(const std::shared_ptr<model::PodRecord>&, model::Breaker::State)> breaker_changed;
  std::atomic<bool> ready{false};
  std::atomic<bool> draining{false};             ///< SIGTERM was seen: answers carry Connection: close
  std::atomic<bool> closing{false};              ///< no new connections any more: idle ones are closed
  std::atomic<std::uint64_t> buffered_bytes{0};  ///< of all request bodies
};

struct WorkerContext {
  WorkerContext(net::Worker& of, Shared& with)
      : worker(of), shared(with), pool(of.deadlines(), with.settings.upstream_idle_timeout) {}

  net::Worker& worker;
  Shared& shared;
  upstream::Pool pool;
  std::shared_ptr<const route::Table> table;  ///< the newest; a request keeps the one it started with
  std::list<Session*> sessions;

  /// Reused between suspensions, never across one.
  struct Scratch {
    http::Pieces payload;
    std::string joined;
    std::vector<std::string_view> out;
    std::vector<iovec> pieces;
    std::vector<PodView> pods;
    std::vector<std::uint32_t> pod_numbers;  ///< where each stands in the server's list
  } scratch;
};

/// Bytes of one request body, counted against max_buffered_bytes for their lifetime.
class BufferBudget {
 public:
  explicit BufferBudget(Shared& shared) noexcept : shared_(shared) {}
  ~BufferBudget() { release(); }
  BufferBudget(const BufferBudget&) = delete;
  BufferBudget& operator=(const BufferBudget&) = delete;

  /// Raises the claim to `bytes`. False when all bodies together would exceed the limit.
  [[nodiscard]] bool raise_to(std::uint64_t bytes) noexcept {
    if (bytes <= claimed_) return true;
    const auto more = bytes - claimed_;
    if (shared_.buffered_bytes.fetch_add(more, std::memory_order_relaxed) + more >
        shared_.settings.max_buffered_bytes) {
      shared_.buffered_bytes.fetch_sub(more, std::memory_order_relaxed);
      return false;
    }
    claimed_ = bytes;
    return true;
  }
  void release() noexcept {
    if (claimed_ != 0) shared_.buffered_bytes.fetch_sub(claimed_, std::memory_order_relaxed);
    claimed_ = 0;
  }

 private:
  Shared& shared_;
  std::uint64_t claimed_ = 0;
};

}  // namespace warmroute::proxy
