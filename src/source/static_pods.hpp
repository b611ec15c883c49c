#pragma once
// StaticPods documents -> pods (decisions 1). No I/O.

#include <map>
#include <string>
#include <vector>

#include "config/resource_docs.hpp"
#include "model/resources.hpp"

namespace warmroute::source {

/// Host name -> its textual addresses, sorted, each once. A name without addresses does not resolve (now).
using HostAddresses = std::map<std::string, std::vector<std::string>>;

/// Appends one pod for each address of each endpoint. Names are NAME-HOST-PORT, with the address behind when the
/// host has several; a host without addresses is one pod that is not ready.
void append_static_pods(const config::StaticPods& document, const HostAddresses& hosts, std::vector<model::Pod>& out);

/// NAME-HOST-PORT in the letters that a DNS name may have.
[[nodiscard]] std::string static_pod_name(const std::string& name, const std::string& host, std::uint16_t port);

}  // namespace warmroute::source
