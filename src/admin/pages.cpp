#include "admin/pages.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <string>

namespace warmroute::admin {
namespace {

using model::Store;

constexpr const char* json_type = "application/json; charset=utf-8";

Page not_found() {
  Page page;
  page.status = 404;
  page.content_type = "text/plain";
  page.body = "404 page not found";
  return page;
}

Page json_page(int status, std::string body) {
  Page page;
  page.status = status;
  page.content_type = json_type;
  page.body = std::move(body);
  return page;
}

std::string_view path_of(std::string_view target) { return target.substr(0, target.find_first_of("?#")); }

void append_string(std::string& out, std::string_view text) {
  constexpr char hex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || c == '<' || c == '>' || c == '&') {
      out += "\\u00";
      out += hex[byte >> 4U];
      out += hex[byte & 0xfU];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_number(std::string& out, double value) {
  std::array<char, 32> text{};
  if (!std::isfinite(value)) value = 0;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), end);
}

/// One JSON object, members in the order of the calls.
class Object {
 public:
  explicit Object(std::string& out) : out_(out) { out_ += '{'; }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() { out_ += '}'; }
  std::string& key(std::string_view name) {
    if (!first_) out_ += ',';
    first_ = false;
    append_string(out_, name);
    out_ += ':';
    return out_;
  }
  void text(std::string_view name, std::string_view value) { append_string(key(name), value); }
  void number(std::string_view name, double value) { append_number(key(name), value); }
  void raw(std::string_view name, std::string_view json) { key(name) += json.empty() ? "{}" : json; }
  void list(std::string_view name, const std::vector<std::string>& values) {
    std::string& out = key(name);
    out += '[';
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i != 0) out += ',';
      append_string(out, values[i]);
    }
    out += ']';
  }

 private:
  std::string& out_;
  bool first_ = true;
};

/// A routable pod, seen from the pods: the snapshot has it once for each server that selects it.
struct PodLine {
  const model::PodEntry* entry = nullptr;
  model::Engine engine = model::Engine::vllm;
  std::vector<std::string> servers;
};
using PodLines = std::map<std::string, PodLine, std::less<>>;

PodLines pod_lines(const model::Snapshot& snapshot) {
  PodLines lines;
  for (const auto& [key, server] : snapshot.servers) {
    for (const auto& pod : server->pods) {
      auto [it, added] = lines.try_emplace(pod.record->key());
      if (added) {
        it->second.entry = &pod;
        it->second.engine = server->spec.engine;
      }
      it->second.servers.push_back(key);
    }
  }
  return lines;
}

const model::Pod* find_pod(const Store& store, std::string_view key) {
  const auto& pods = store.resources().pods;
  const auto it = std::find_if(pods.begin(), pods.end(), [&](const model::Pod& pod) { return pod.meta.key() == key; });
  return it == pods.end() ? nullptr : &*it;
}

void write_pod_info(Object& object, const PodLine& line, const model::Pod* pod) {
  Object info(object.key("podInfo"));
  info.text("podIP", line.entry->record->ip());
  info.text("nodeName", pod != nullptr ? pod->node_name : "");
  info.text("phase", pod != nullptr ? pod->phase : "");
  if (pod == nullptr) return;
  if (pod->start_time) info.text("startTime", *pod->start_time);
  if (pod->meta.labels.empty()) return;
  Object labels(info.key("labels"));
  for (const auto& [name, value] : pod->meta.labels) labels.text(name, value);
}

void write_pod(std::string& out, const Store& store, const PodLine& line, bool single) {
  const model::PodRecord& record = *line.entry->record;
  Object object(out);
  object.text("name", record.name());
  object.text("namespace", record.ns());
  if (single) write_pod_info(object, line, find_pod(store, record.key()));
  object.text("engine", model::name(line.engine));
  {
    const LoadSample sample = record.last_sample().value_or(LoadSample{});
    Object metrics(object.key("metrics"));
    metrics.number("gpuCacheUsage", sample.kv_usage);
    metrics.number("requestWaitingNum", sample.waiting);
    metrics.number("requestRunningNum", sample.running);
    metrics.number("tpot", sample.tpot_seconds);
    metrics.number("ttft", sample.ttft_seconds);
  }
  object.list("models", *line.entry->loaded_models);
  object.list("modelServers", line.servers);
}

void write_route(std::string& out, const model::ModelRoute& route) {
  Object object(out);
  object.text("name", route.meta.name);
  object.text("namespace", route.meta.ns);
  object.raw("spec", route.spec_json);
}

void write_server(std::string& out, const model::ServerEntry& server) {
  std::vector<std::string> all, decode, prefill;
  for (const auto& pod : server.pods) {
    all.push_back(pod.record->key());
    if (pod.role == model::PdRole::decode) decode.push_back(pod.record->key());
    if (pod.role == model::PdRole::prefill) prefill.push_back(pod.record->key());
  }
  Object object(out);
  object.text("name", server.spec.meta.name);
  object.text("namespace", server.spec.meta.ns);
  object.raw("spec", server.spec.spec_json);
  if (!all.empty()) object.list("associatedPods", all);
  if (!decode.empty()) object.list("decodePods", decode);
  if (!prefill.empty()) object.list("prefillPods", prefill);
}

enum class Kind : std::uint8_t { modelroutes, modelservers, pods, gateways, httproutes, inferencepools };
struct KindName {
  Kind kind;
  std::string_view plural, singular;
};
constexpr std::array kinds{KindName{Kind::modelroutes, "modelroutes", "ModelRoute"},
                           KindName{Kind::modelservers, "modelservers", "ModelServer"},
                           KindName{Kind::pods, "pods", "Pod"},
                           KindName{Kind::gateways, "gateways", "Gateway"},
                           KindName{Kind::httproutes, "httproutes", "HTTPRoute"},
                           KindName{Kind::inferencepools, "inferencepools", "InferencePool"}};

const KindName* find_kind(std::string_view plural) {
  const auto it = std::find_if(kinds.begin(), kinds.end(), [&](const KindName& k) { return k.plural == plural; });
  return it == kinds.end() ? nullptr : &*it;
}

/// `{"KIND":[...]}`; an empty list is null, as the Go router prints it.
Page list_page(const Store& store, const KindName& kind) {
  const auto snapshot = store.snapshot();
  std::string items;
  const auto separate = [&items] {
    if (!items.empty()) items += ',';
  };
  if (snapshot && kind.kind == Kind::modelroutes) {
    for (const auto& route : snapshot->routes) {
      separate();
      write_route(items, *route);
    }
  } else if (snapshot && kind.kind == Kind::modelservers) {
    for (const auto& [key, server] : snapshot->servers) {
      separate();
      write_server(items, *server);
    }
  } else if (snapshot && kind.kind == Kind::pods) {
    for (const auto& [key, line] : pod_lines(*snapshot)) {
      separate();
      write_pod(items, store, line, false);
    }
  }
  std::string body;
  {
    Object object(body);
    object.raw(kind.plural, items.empty() ? "null" : "[" + items + "]");
  }
  return json_page(200, std::move(body));
}

Page object_page(const Store& store, const KindName& kind, std::string_view ns, std::string_view name) {
  if (ns.empty() || name.empty()) return json_page(400, R"({"error":"namespace and name parameters are required"})");
  const std::string key = std::string(ns) + "/" + std::string(name);
  std::string body;
  if (const auto snapshot = store.snapshot()) {
    if (kind.kind == Kind::modelroutes) {
      const auto it = std::find_if(snapshot->routes.begin(), snapshot->routes.end(),
                                   [&](const auto& route) { return route->meta.key() == key; });
      if (it != snapshot->routes.end()) write_route(body, **it);
    } else if (kind.kind == Kind::modelservers) {
      if (const auto server = snapshot->server(key)) write_server(body, *server);
    } else if (kind.kind == Kind::pods) {
      const auto lines = pod_lines(*snapshot);
      if (const auto it = lines.find(key); it != lines.end()) write_pod(body, store, it->second, true);
    }
  }
  if (body.empty()) return json_page(404, R"({"error":")" + std::string(kind.singular) + R"( not found"})");
  return json_page(200, std::move(body));
}

/// Up to five parts of a path below /debug/config_dump/.
std::vector<std::string_view> split(std::string_view path) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto slash = path.find('/');
    parts.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos || parts.size() == 5) return parts;
    path.remove_prefix(slash + 1);
  }
}

Page config_dump(const Store& store, std::string_view path) {
  const auto parts = split(path);
  if (parts.size() == 1) {
    const KindName* kind = find_kind(parts[0]);
    return kind != nullptr ? list_page(store, *kind) : not_found();
  }
  if (parts.size() != 4 || parts[0] != "namespaces") return not_found();
  const KindName* kind = find_kind(parts[2]);
  return kind != nullptr ? object_page(store, *kind, parts[1], parts[3]) : not_found();
}

/// Ours: requests in flight and the breaker, for whoever wonders why a pod gets nothing.
Page own_page(const Store& store, const model::BreakerPolicy& policy) {
  std::string items;
  const auto now = model::Clock::now();
  for (const auto& [key, line] : pod_lines(*store.snapshot())) {
    if (!items.empty()) items += ',';
    const auto& record = *line.entry->record;
    Object object(items);
    object.text("name", record.name());
    object.text("namespace", record.ns());
    object.number("inFlight", static_cast<double>(record.in_flight()));
    object.text("breaker", policy.enabled() ? name(record.breaker().state(policy, now)) : "off");
  }
  return json_page(200, R"({"pods":[)" + items + "]}");
}

}  // namespace

Page metrics_page(metrics::Registry& registry, std::string_view target) {
  if (path_of(target) != "/metrics") return not_found();
  Page page;
  page.content_type = "text/plain; version=0.0.4; charset=utf-8";
  page.body = registry.serialize();
  return page;
}

Page debug_page(const Store& store, std::string_view target, const model::BreakerPolicy& breaker) {
  constexpr std::string_view dump = "/debug/config_dump/", pprof = "/debug/pprof";
  const std::string_view path = path_of(target);
  if (path == pprof || path.substr(0, pprof.size() + 1) == "/debug/pprof/")
    return json_page(404, R"({"error":"profiles are not offered by this build; use perf or gdb on the process"})");
  if (path == "/debug/pods") return own_page(store, breaker);
  if (path.substr(0, dump.size()) != dump) return not_found();
  Page page = config_dump(store, path.substr(dump.size()));
  if (page.status == 404 && page.content_type != json_type && path.back() == '/') {
    // A trailing slash is redirected where the path without it exists.
    const std::string_view bare = path.substr(0, path.size() - 1);
    if (bare.size() > dump.size() && config_dump(store, bare.substr(dump.size())).content_type == json_type) {
      page.status = 301;
      page.content_type = "text/html; charset=utf-8";
      page.location = std::string(bare) + std::string(target.substr(path.size()));
      page.body = "<a href=\"" + page.location + "\">Moved Permanently</a>.\n\n";
    }
  }
  return page;
}

}  // namespace warmroute::admin
