#pragma once
// The request families of spec 18.1. finished() costs a hash lookup in a per-thread cache, no lock.

#include <memory>
#include <string_view>

#include "metrics/registry.hpp"
#include "model/request_record.hpp"

namespace warmroute::metrics {

/// Adds one to a gauge for its lifetime.
class GaugeGuard {
 public:
  GaugeGuard() = default;
  explicit GaugeGuard(Gauge& gauge) noexcept : gauge_(&gauge) { gauge_->add(1); }
  GaugeGuard(GaugeGuard&& other) noexcept : gauge_(std::exchange(other.gauge_, nullptr)) {}
  GaugeGuard& operator=(GaugeGuard&& other) noexcept {
    if (this != &other) {
      release();
      gauge_ = std::exchange(other.gauge_, nullptr);
    }
    return *this;
  }
  ~GaugeGuard() { release(); }
  void release() noexcept {
    if (gauge_ != nullptr) gauge_->add(-1);
    gauge_ = nullptr;
  }

 private:
  Gauge* gauge_ = nullptr;
};

/// Of an attempt: alone, or one of the two of a prefill/decode pair.
enum class Phase : std::uint8_t { whole, prefill, decode };

class RequestMetrics {
 public:
  static std::unique_ptr<RequestMetrics> create(Registry& registry);
  virtual ~RequestMetrics() = default;
  [[nodiscard]] virtual GaugeGuard active_request() = 0;  ///< active_requests
  [[nodiscard]] virtual GaugeGuard active_downstream(std::string_view model_label) = 0;
  [[nodiscard]] virtual GaugeGuard active_upstream(std::string_view model_server, std::string_view model_route,
                                                   std::string_view upstream_model) = 0;
  /// request_prefill_duration_seconds or request_decode_duration_seconds. \param phase not `whole`.
  virtual void phase_took(const model::RequestRecord& record, Phase phase, int status, double seconds) noexcept = 0;
  /// requests_total, request_duration_seconds (both when record.counted), tokens_total input and output (when above
  /// zero). The duration runs from the `parsed` mark, i.e. without the upload of the body (spec 3.1, step 7), or from
  /// `started` for what was refused while parsing, to `finished`.
  virtual void finished(const model::RequestRecord& record) = 0;
};

}  // namespace warmroute::metrics
