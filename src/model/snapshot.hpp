#pragma once
// The immutable picture of routes, servers and pods that requests work with. Built by model/store.cpp on the
// control thread, handed to each worker; a request holds the one it started with to its end.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/pd_groups.hpp"
#include "model/pod_record.hpp"
#include "model/resources.hpp"

namespace warmroute::model {

struct PodEntry {
  std::shared_ptr<PodRecord> record;
  std::shared_ptr<const std::vector<std::string>> loaded_models;  ///< never null
  std::uint16_t port = 0;      ///< own port of the pod, else the server's workloadPort
  PdRole role = PdRole::none;  ///< of a server with a PD group
  std::uint32_t group = 0;     ///< of a pod with a role: index into ServerEntry::groups
  /// "default/name", the ip and the incarnation are in the record.
};

struct ServerEntry {
  std::string key;  ///< namespace/name
  ModelServer spec;
  std::vector<PodEntry> pods;         ///< routable ones only, sorted by key
  std::vector<PdGroupPods> groups{};  ///< of a server with a PD group, sorted by value; each has a member
  std::uint64_t pods_version = 0;     ///< no other list of pods of this process has it; 0: not given
};

struct Snapshot {
  std::uint64_t version = 0;
  /// In the order of decision 1: creationTimestamp, then position (standalone), then namespace/name.
  std::vector<std::shared_ptr<const ModelRoute>> routes;
  std::map<std::string, std::shared_ptr<const ServerEntry>, std::less<>> servers;  ///< by namespace/name

  [[nodiscard]] std::shared_ptr<const ServerEntry> server(std::string_view key) const {
    const auto it = servers.find(key);
    return it == servers.end() ? nullptr : it->second;
  }
};

}  // namespace warmroute::model
