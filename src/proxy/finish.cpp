#include "proxy/finish.hpp"

#include "base/log.hpp"

namespace warmroute::proxy {

void finish(Exchange& exchange) noexcept {
  auto& record = exchange.record;
  exchange.downstream.release();
  exchange.active.release();
  if (!exchange.logged) return;
  record.finished = model::RequestRecord::Steady::now();
  if (!exchange.answered) {
    // Nothing reached the client's socket: he left before the head.
    record.status = 499;
    record.error_type = "client_disconnected";
    record.metric_error_type = "client_disconnected";
    record.error_message = "client closed the connection";
    record.error_origin = {};
  }
  try {
    exchange.shared.metrics->finished(record);
    if (exchange.shared.access_log != nullptr) exchange.shared.access_log->write(record);
  } catch (const std::exception& e) {  // out of memory while a new series was made
    log::error("request could not be counted: {}", e.what());
  }
}

}  // namespace warmroute::proxy
