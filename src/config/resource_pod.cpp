// v1 Pod and StaticPods (decisions 1).

#include <set>

#include "config/resource_readers.hpp"

namespace warmroute::config::detail {
namespace {

constexpr std::string_view engine_container_annotation = "warmroute.dev/engine-container";
constexpr std::size_t max_host_characters = 253;

/// Start of the container that owns the KV cache. Helper containers may restart without cost to the cache, so only
/// one counts: the annotated one, else the first of the spec.
std::optional<std::string> read_container_start(const YamlNode& document) {
  const YamlNode annotation = document.get("metadata").get("annotations").get(engine_container_annotation);
  std::optional<std::string> engine = annotation.strict_text();
  const bool named = engine.has_value();
  if (!named) {
    const auto containers = document.get("spec").get("containers").items();
    if (!containers.empty()) engine = containers.front().get("name").strict_text();
  }
  const auto statuses = document.get("status").get("containerStatuses").items();
  for (const YamlNode& status : statuses) {
    const auto name = status.get("name").strict_text();
    if (engine && name != engine) continue;
    return status.get("state").get("running").get("startedAt").strict_text();
  }
  if (named && !statuses.empty()) annotation.warning("names no container of status.containerStatuses");
  return std::nullopt;
}

bool read_ready(const YamlNode& status, const std::string& phase) {
  if (phase != "Running") return false;
  const auto conditions = status.get("conditions").items();
  bool ready = conditions.empty();
  for (const YamlNode& condition : conditions) {
    if (condition.get("type").text() == "Ready") ready = condition.get("status").text() == "True";
  }
  return ready;
}

/// Fields of a Pod's status that are known and not used; others are reported as unknown.
void ignore_status(const YamlNode& status) {
  for (const char* key :
       {"allocatedResources", "conditions", "containerStatuses", "ephemeralContainerStatuses",
        "extendedResourceClaimStatus", "hostIP", "hostIPs", "initContainerStatuses", "message", "nominatedNodeName",
        "observedGeneration", "podIPs", "qosClass", "reason", "resize", "resourceClaimStatuses", "resources"}) {
    status.get(key).ignore();
  }
}

bool is_host_name(std::string_view host) noexcept {
  if (host.empty() || host.size() > max_host_characters) return false;
  bool digits_only = true;  // of the last label: 10.0.0.500 is a wrong address, not a name
  std::size_t label = 0;
  for (std::size_t i = 0; i < host.size(); ++i) {
    const char c = host[i];
    if (c == '.') {
      if (label == 0) return false;
      label = 0;
      if (i + 1 < host.size()) digits_only = true;
      continue;
    }
    const bool digit = c >= '0' && c <= '9';
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!digit && !letter && c != '-' && c != '_') return false;
    digits_only = digits_only && digit;
    if (++label > 63) return false;
  }
  return !digits_only;
}

std::optional<StaticPods::Endpoint> read_endpoint(const YamlNode& node) {
  const auto text = node.strict_text();
  if (!text) {
    if (!node) node.error("must be HOST:PORT or HOST");
    return std::nullopt;
  }
  StaticPods::Endpoint endpoint;
  // Without a port of its own the pod listens on its ModelServer's workloadPort.
  const std::size_t bracket = text->rfind(']');
  const std::size_t colon = text->rfind(':');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  endpoint.host = text->substr(0, has_port ? colon : std::string::npos);
  if (has_port) {
    const std::string port = text->substr(colon + 1);
    const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
    const int number = digits ? std::stoi(port) : 0;
    if (number < 1 || number > 65535) {
      node.error("port must be a number from 1 to 65535 in " + node.describe());
      return std::nullopt;
    }
    endpoint.port = static_cast<std::uint16_t>(number);
  }

  const bool brackets = endpoint.host.size() > 2 && endpoint.host.front() == '[' && endpoint.host.back() == ']';
  if (brackets) endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  if (v6 != brackets) {
    node.error("an IPv6 address, and nothing else, must be written as [ADDRESS]:PORT; is " + node.describe());
    return std::nullopt;
  }
  endpoint.is_address = is_address(endpoint.host);
  if (!endpoint.is_address && (v6 || !is_host_name(endpoint.host))) {
    node.error("neither an address nor a host name: " + node.describe());
    return std::nullopt;
  }
  return endpoint;
}

}  // namespace

model::Pod read_pod(const YamlNode& document, model::ObjectMeta meta) {
  model::Pod pod;
  pod.meta = std::move(meta);
  const YamlNode status = document.get("status");
  const YamlNode address = status.get("podIP");
  if (auto ip = address.strict_text(); ip && !ip->empty()) {
    if (!is_address(*ip)) address.error("must be an IPv4 or IPv6 address, but is " + address.describe());
    pod.ip = std::move(*ip);
  }
  pod.phase = status.get("phase").strict_text().value_or("Running");
  if (pod.phase.empty()) pod.phase = "Running";
  pod.ready = read_ready(status, pod.phase) && !pod.meta.deletion_timestamp && !pod.ip.empty();
  pod.start_time = status.get("startTime").strict_text();
  pod.node_name = document.get("spec").get("nodeName").strict_text().value_or("");
  pod.container_start = read_container_start(document);
  document.get("spec").ignore();
  ignore_status(status);
  return pod;
}

StaticPods read_static_pods(const YamlNode& spec, model::ObjectMeta meta) {
  StaticPods pods;
  pods.meta = std::move(meta);
  pods.labels = read_selector(spec.get("labels"));
  if (spec.is_map() && pods.labels.empty()) {
    spec.get("labels").warning("no labels: no ModelServer can select these pods");
  }
  const YamlNode endpoints = required(spec, "endpoints");
  std::set<std::pair<std::string, std::uint16_t>> seen;
  for (const YamlNode& item : endpoints.items()) {
    auto endpoint = read_endpoint(item);
    if (!endpoint) continue;
    if (seen.emplace(endpoint->host, endpoint->port).second) {
      pods.endpoints.push_back(std::move(*endpoint));
    } else {
      item.warning("is listed more than once");
    }
  }
  return pods;
}

}  // namespace warmroute::config::detail
