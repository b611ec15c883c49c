// ModelServer: spec, schema rules and what the admission webhook refuses (spec kthena-controlplane 2.2, 11.2).

#include <algorithm>
#include <limits>

#include "config/go_duration.hpp"
#include "config/resource_json.hpp"
#include "config/resource_readers.hpp"

namespace warmroute::config::detail {
namespace {

constexpr std::size_t max_model_characters = 256;
constexpr std::chrono::nanoseconds default_retry_interval = std::chrono::milliseconds{100};

std::optional<std::chrono::nanoseconds> read_duration(const YamlNode& node) {
  const auto text = node.strict_text();
  if (!text) return std::nullopt;
  auto duration = parse_go_duration(*text);
  if (!duration) node.error("must be a duration such as 500ms, 30s or 1m30s, but is " + node.describe());
  return duration;
}

model::Labels read_required_labels(const YamlNode& parent, std::string_view key) {
  const YamlNode node = required(parent, key);
  model::Labels labels = read_selector(node);
  if (node.is_map() && node.entries().empty()) node.error("labels must contain at least one label");
  return labels;
}

std::optional<model::PdGroup> read_pd_group(const YamlNode& node) {
  if (!node) return std::nullopt;
  model::PdGroup group;
  group.group_key = required(node, "groupKey").strict_text().value_or("");
  if (group.group_key.empty() && node.get("groupKey")) node.get("groupKey").error("groupKey must be specified");
  group.prefill_labels = read_required_labels(node, "prefillLabels");
  group.decode_labels = read_required_labels(node, "decodeLabels");
  return group;
}

/// Rounded up, so that a time-out below a millisecond does not become none.
std::chrono::milliseconds to_milliseconds(std::chrono::nanoseconds duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration);
}

TrafficText read_traffic(const YamlNode& node, model::ModelServer& server) {
  TrafficText traffic;
  if (!node) return traffic;
  traffic.present = true;
  traffic.timeout = read_duration(node.get("timeout"));
  // Go's client takes zero and less as no limit.
  if (traffic.timeout && traffic.timeout->count() > 0) server.timeout = to_milliseconds(*traffic.timeout);
  const YamlNode retry = node.get("retry");
  if (!retry) return traffic;
  traffic.retry = true;
  constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min(),
                         most = std::numeric_limits<std::int32_t>::max();
  if (const auto attempts = retry.get("attempts").integer(least, most)) {
    traffic.attempts = static_cast<std::int32_t>(*attempts);
  }
  traffic.retry_interval = read_duration(retry.get("retryInterval")).value_or(default_retry_interval);
  model::RetryPolicy policy;
  // No number means as many as there are candidates.
  policy.attempts = std::max(traffic.attempts.value_or(std::numeric_limits<std::int32_t>::max()), 0);
  policy.interval = std::max(to_milliseconds(*traffic.retry_interval), std::chrono::milliseconds{0});
  server.retry = policy;
  return traffic;
}

}  // namespace

model::ModelServer read_model_server(const YamlNode& spec, model::ObjectMeta meta) {
  model::ModelServer server;
  server.meta = std::move(meta);
  server.model = read_text(spec.get("model"), max_model_characters).value_or("");
  if (read_enum(required(spec, "inferenceEngine"), {"vLLM", "SGLang"}) == "SGLang")
    server.engine = model::Engine::sglang;

  const YamlNode selector = required(spec, "workloadSelector");
  server.selector = read_required_labels(selector, "matchLabels");
  server.pd_group = read_pd_group(selector.get("pdGroup"));

  const YamlNode port = required(spec, "workloadPort");
  server.port = static_cast<std::uint16_t>(required(port, "port").integer(1, 65535).value_or(0));
  server.https = read_enum(port.get("protocol"), {"http", "https"}) == "https";

  const TrafficText traffic = read_traffic(spec.get("trafficPolicy"), server);
  if (const YamlNode connector = spec.get("kvConnector")) {
    server.kv_connector = read_enum(connector.get("type"), {"http", "lmcache", "nixl", "mooncake"}).value_or("http");
  }
  server.spec_json = server_spec_json(server, traffic);
  return server;
}

}  // namespace warmroute::config::detail
