#include "app/proxy_settings.hpp"

#include <algorithm>

#include "app/machine.hpp"

namespace warmroute::app {

proxy::Settings settings_of(const Options& options, bool compat) {
  proxy::Settings settings;
  settings.compat = compat;
  settings.forwarded_headers = options.forwarded_headers;
  settings.half_close_answers = options.half_close_answers;
  settings.metrics_on_router_port = options.expose_metrics_on_router_port;
  settings.connect_timeout = options.connect_timeout;
  settings.response_header_timeout = options.response_header_timeout;
  settings.stream_idle_timeout = options.stream_idle_timeout;
  settings.total_timeout = options.total_timeout;
  settings.client_head_timeout = options.client_head_timeout;
  settings.client_body_timeout = options.client_body_timeout;
  settings.client_idle_timeout = options.client_idle_timeout;
  settings.client_write_timeout = options.client_write_timeout;
  settings.upstream_idle_timeout = options.upstream_idle_timeout;
  settings.max_head_bytes = options.max_head_bytes;
  settings.max_body_bytes = options.max_body_bytes;
  settings.max_buffered_bytes = options.max_buffered_bytes != 0 ? options.max_buffered_bytes : available_memory() / 4;
  settings.breaker.failures = static_cast<std::uint32_t>(options.breaker_failures.value_or(compat ? 0 : 5));
  settings.breaker.open = options.breaker_open;
  settings.breaker.open_max = options.breaker_open_max;
  settings.breaker.probes = static_cast<std::uint32_t>(options.breaker_probes);
  settings.breaker.ramp = options.breaker_ramp;
  settings.sample_max_age = std::max<std::chrono::milliseconds>(5 * options.scrape_interval, std::chrono::seconds(5));
  return settings;
}

proxy::QueueLimits queue_limits_of(const Options& options) {
  proxy::QueueLimits limits;
  limits.length = static_cast<std::size_t>(options.queue_length);
  limits.bytes = options.queue_bytes;
  limits.timeout = options.queue_timeout;
  return limits;
}

}  // namespace warmroute::app
