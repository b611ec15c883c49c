#include "source/static_pods.hpp"

#include <utility>

namespace warmroute::source {
namespace {

std::string dns_safe(const std::string& host) {
  std::string out;
  out.reserve(host.size());
  for (const char c : host) {
    if (c >= 'A' && c <= 'Z') {
      out += static_cast<char>(c - 'A' + 'a');
    } else {
      const bool allowed = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.';
      out += allowed ? c : '-';
    }
  }
  while (!out.empty() && out.back() == '.') out.pop_back();
  return out;
}

}  // namespace

std::string static_pod_name(const std::string& name, const std::string& host, std::uint16_t port) {
  std::string pod = name + "-" + dns_safe(host);
  return port == 0 ? pod : pod + "-" + std::to_string(port);
}

void append_static_pods(const config::StaticPods& document, const HostAddresses& hosts, std::vector<model::Pod>& out) {
  for (const auto& endpoint : document.endpoints) {
    model::Pod pod;
    pod.meta = document.meta;
    pod.meta.uid.clear();  // the document's, not the pod's
    pod.meta.labels = document.labels;
    pod.meta.name = static_pod_name(document.meta.name, endpoint.host, endpoint.port);
    if (endpoint.port != 0) pod.port = endpoint.port;
    pod.is_static = true;
    pod.ready = !document.meta.deletion_timestamp;
    if (endpoint.is_address) {
      pod.ip = endpoint.host;
      out.push_back(std::move(pod));
      continue;
    }
    const auto found = hosts.find(endpoint.host);
    if (found == hosts.end() || found->second.empty()) {
      pod.ready = false;
      pod.phase = "Pending";
      out.push_back(std::move(pod));
      continue;
    }
    for (const std::string& address : found->second) {
      model::Pod each = pod;
      if (found->second.size() > 1) each.meta.name += "-" + dns_safe(address);
      each.ip = address;
      each.host = endpoint.host;
      out.push_back(std::move(each));
    }
  }
}

}  // namespace warmroute::source
