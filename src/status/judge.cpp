#include "status/judge.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <set>

#include "config/resource_objects.hpp"
#include "model/label_index.hpp"

namespace warmroute::status {
namespace {

Condition good(std::string type, std::string reason, std::string message) {
  return {std::move(type), true, std::move(reason), limited(std::move(message))};
}
Condition bad(std::string type, std::string reason, std::string message) {
  return {std::move(type), false, std::move(reason), limited(std::move(message))};
}

Verdict begin(Kind kind, const model::ObjectMeta& meta, const std::string& spec) {
  return {kind, meta.ns, meta.name, meta.uid, std::hash<std::string>()(spec), {}};
}

std::string selector_text(const model::Labels& labels) {
  std::string text;
  for (const auto& [key, value] : labels) text += (text.empty() ? "" : ",") + key + "=" + value;
  return text;
}

bool has_complete_group(const model::ServerEntry& server) {
  return std::any_of(server.groups.begin(), server.groups.end(),
                     [](const auto& group) { return !group.prefill.empty() && !group.decode.empty(); });
}

/// Ready for requests: with a PD group that takes a pod of each role.
bool is_served(const model::ServerEntry& server) {
  return !server.pods.empty() && (!server.spec.pd_group || has_complete_group(server));
}

Condition judge_server(const model::ServerEntry& server, const model::LabelIndex& pods) {
  const model::ModelServer& spec = server.spec;
  if (is_served(server)) return good("Ready", "Ready", "ready pods take requests");
  if (!server.pods.empty())
    return bad("Ready", "NoCompleteGroup",
               fmt::format("no value of the label {} has a ready prefill pod and a ready decode pod",
                           spec.pd_group->group_key));
  if (pods.find(spec.meta.ns, spec.selector).empty())
    return bad("Ready", "NoPodSelected",
               fmt::format("no pod in namespace {} has the labels {}", spec.meta.ns, selector_text(spec.selector)));
  return bad("Ready", "NoReadyPods",
             fmt::format("there are pods with the labels {}, but none is ready", selector_text(spec.selector)));
}

/// What this build cannot do for a route; empty: nothing.
std::string unsupported(const model::ModelRoute& route) {
  if (route.rate_limit) return "rateLimit is not supported by this build; requests are answered 503";
  if (!route.parent_refs.empty()) return "Gateways are not served, so a route with parentRefs takes no requests";
  for (const auto& rule : route.rules) {
    if (!rule) continue;
    for (const auto& target : rule->targets)
      if (target && !target->external_provider_name.empty())
        return "externalModelProviderName is not supported by this build; requests for it are answered 503";
  }
  return {};
}

struct Targets {
  std::set<std::string> missing;  ///< namespace/name
  bool any_found = false, any_served = false;
};

Targets targets_of(const model::ModelRoute& route, const model::Snapshot& snapshot) {
  Targets out;
  for (const auto& rule : route.rules) {
    if (!rule) continue;
    for (const auto& target : rule->targets) {
      if (!target || target->model_server_name.empty()) continue;
      const std::string key = route.meta.ns + "/" + target->model_server_name;
      const auto server = snapshot.server(key);
      if (!server) {
        out.missing.insert(key);
        continue;
      }
      out.any_found = true;
      out.any_served = out.any_served || is_served(*server);
    }
  }
  return out;
}

std::vector<Condition> judge_route(const model::ModelRoute& route, const model::Snapshot& snapshot) {
  const Targets targets = targets_of(route, snapshot);
  std::vector<Condition> out;
  const std::string missing =
      fmt::format("there is no ModelServer {}", fmt::join(targets.missing, " and no ModelServer "));
  out.push_back(targets.missing.empty()
                    ? good("ResolvedRefs", "ResolvedRefs", "every ModelServer that the rules name exists")
                    : bad("ResolvedRefs", "ModelServerNotFound", missing));
  if (std::string text = unsupported(route); !text.empty())
    out.push_back(bad("Ready", "NotSupported", std::move(text)));
  else if (!targets.any_found && !targets.missing.empty())
    out.push_back(bad("Ready", "ModelServerNotFound", missing));
  else if (!targets.any_served)
    out.push_back(bad("Ready", "NoReadyPods", "none of its ModelServers has a ready pod"));
  else
    out.push_back(good("Ready", "Ready", "requests are routed"));
  return out;
}

}  // namespace

const char* name(Kind kind) noexcept { return kind == Kind::model_route ? "ModelRoute" : "ModelServer"; }
const char* plural(Kind kind) noexcept { return kind == Kind::model_route ? "modelroutes" : "modelservers"; }

std::size_t fingerprint(Kind kind, const std::string& json) {
  config::Diagnostics problems;  // those of the source tell the operator
  if (kind == Kind::model_route) {
    const auto object = config::model_route_of(json, problems);
    return object ? std::hash<std::string>()(object->spec_json) : 0;
  }
  const auto object = config::model_server_of(json, problems);
  return object ? std::hash<std::string>()(object->spec_json) : 0;
}

Verdict judge_unusable(Kind kind, const std::string& key, const std::string& uid, std::string problem) {
  const auto slash = key.find('/');
  return {kind, key.substr(0, slash), key.substr(slash + 1), uid, 0, {bad("Ready", "Invalid", std::move(problem))}};
}

std::vector<Verdict> judge(const model::ResourceSet& resources, const model::Snapshot& snapshot) {
  model::LabelIndex pods;  // asked only about servers without a ready pod
  if (std::any_of(snapshot.servers.begin(), snapshot.servers.end(),
                  [](const auto& s) { return s.second->pods.empty(); }))
    for (std::uint32_t i = 0; i < resources.pods.size(); ++i) pods.add(resources.pods[i], i);
  std::vector<Verdict> out;
  for (const auto& [key, server] : snapshot.servers) {
    Verdict verdict = begin(Kind::model_server, server->spec.meta, server->spec.spec_json);
    verdict.conditions.push_back(judge_server(*server, pods));
    out.push_back(std::move(verdict));
  }
  for (const auto& route : snapshot.routes) {
    Verdict verdict = begin(Kind::model_route, route->meta, route->spec_json);
    verdict.conditions = judge_route(*route, snapshot);
    out.push_back(std::move(verdict));
  }
  return out;
}

}  // namespace warmroute::status
