#include "model/store.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "model/label_index.hpp"

namespace warmroute::model {
namespace {

/// A clock that is adjusted while an engine runs moves its reported start a little; a restart moves it more.
constexpr double process_start_tolerance_seconds = 1.0;

/// Routes with a creationTimestamp come before those without; see decision 1.
bool route_before(const ModelRoute& a, const ModelRoute& b) {
  const ObjectMeta& l = a.meta;
  const ObjectMeta& r = b.meta;
  if (l.creation_timestamp || r.creation_timestamp) {
    if (!l.creation_timestamp || !r.creation_timestamp) return l.creation_timestamp.has_value();
    return std::tie(*l.creation_timestamp, l.ns, l.name) < std::tie(*r.creation_timestamp, r.ns, r.name);
  }
  return std::tie(l.position, l.ns, l.name) < std::tie(r.position, r.ns, r.name);
}

/// Equal in all that a snapshot's user can see: not resourceVersion, labels or place in the file. Status and Events are
/// about one uid.
template <class T>
bool same_for_requests(const T& a, const T& b) {
  if (a.meta.key() != b.meta.key() || a.meta.uid != b.meta.uid) return false;
  if (a.meta == b.meta) return a == b;
  T other = b;
  other.meta = a.meta;
  return a == other;
}

/// Of several objects with one namespace/name the last counts, as if they had been applied one after the other.
template <class T>
void keep_last(std::vector<T>& objects, const char* kind, const std::function<void(std::string_view)>& warn) {
  std::unordered_map<std::string, std::size_t> last;
  last.reserve(objects.size());
  bool duplicates = false;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const auto [it, added] = last.insert_or_assign(objects[i].meta.key(), i);
    if (added) continue;
    duplicates = true;
    if (warn) warn(std::string(kind) + " " + it->first + " is defined more than once; the last definition is used");
  }
  if (!duplicates) return;
  std::vector<T> kept;
  kept.reserve(last.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (last.at(objects[i].meta.key()) == i) kept.push_back(std::move(objects[i]));
  }
  objects = std::move(kept);
}

bool routable(const Pod& pod) noexcept { return pod.ready && !pod.meta.deletion_timestamp && !pod.ip.empty(); }

/// What makes two sightings of one namespace/name the same incarnation, apart from the engine's process start.
struct Identity {
  std::string uid, ip, host;
  std::optional<std::uint16_t> port;
  std::optional<std::string> container_start;
  bool is_static = false;
  friend bool operator==(const Identity&, const Identity&) = default;

  explicit Identity(const Pod& pod)
      : uid(pod.meta.uid),
        ip(pod.ip),
        host(pod.host),
        port(pod.port),
        container_start(pod.container_start),
        is_static(pod.is_static) {}
};

/// A pod that is ready and selected by a ModelServer.
struct Live {
  explicit Live(const Pod& pod) : identity(pod) {}

  Identity identity;
  /// Of the present incarnation; while a static pod is down, of the one that left (its id names the pod to the
  /// prober, its slot stays taken).
  std::shared_ptr<PodRecord> record;
  std::shared_ptr<const std::vector<std::string>> loaded_models;
  std::optional<double> process_start;
  bool up = true;                    ///< false: a static pod that does not answer
  std::vector<std::string> servers;  ///< keys, sorted
  Labels labels;                     ///< kept only when a server of the pod has a PD group
  ScrapeTarget target;
};

struct Server {
  ModelServer spec;
  std::vector<Live*> members;  ///< sorted by pod key
};

bool same_entries(const std::vector<PodEntry>& a, const std::vector<PodEntry>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PodEntry& l, const PodEntry& r) {
    return l.record == r.record && l.loaded_models == r.loaded_models && l.port == r.port && l.role == r.role &&
           l.group == r.group;
  });
}

bool same_targets(const std::vector<ScrapeTarget>& a, const std::vector<ScrapeTarget>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ScrapeTarget& l, const ScrapeTarget& r) {
    return l.record == r.record && l.engine == r.engine && l.port == r.port && l.https == r.https &&
           l.is_static == r.is_static;
  });
}

const std::shared_ptr<const std::vector<std::string>>& no_models() {
  static const auto none = std::make_shared<const std::vector<std::string>>();
  return none;
}

}  // namespace

struct Store::Impl {
  using RecordPtr = std::shared_ptr<PodRecord>;
  /// What one call changed; hooks run when the whole new state stands.
  struct Changes {
    std::vector<RecordPtr> joined, left;
    std::vector<std::uint32_t> free_slots;
  };

  Hooks hooks;
  ResourceSet known;
  std::shared_ptr<const Snapshot> current = std::make_shared<const Snapshot>();
  std::map<std::string, Live> live;       ///< by namespace/name; a map, so that pointers into it stay good
  std::map<std::string, Server> servers;  ///< by namespace/name
  std::vector<Live*> by_slot;             ///< null: free
  std::vector<std::uint32_t> free_slots;
  /// What is in flight by namespace/name and address, also at those that left with requests under way.
  std::map<std::string, std::weak_ptr<PodSlots>> slots;
  std::uint32_t last_generation = 0;
  mutable std::uint64_t last_pods_version = 0;
  std::vector<ScrapeTarget> targets;

  Live* find(PodId id) const noexcept {
    if (id.slot >= by_slot.size()) return nullptr;
    Live* const pod = by_slot[id.slot];
    return pod != nullptr && pod->record->id() == id ? pod : nullptr;
  }

  void begin_incarnation(const std::string& key, Live& pod, Changes& changes) {
    PodId id;
    if (free_slots.empty()) {
      id.slot = static_cast<std::uint32_t>(by_slot.size());
      by_slot.push_back(nullptr);
    } else {
      id.slot = free_slots.back();
      free_slots.pop_back();
    }
    id.generation = ++last_generation;
    by_slot[id.slot] = &pod;
    const std::size_t slash = key.find('/');
    auto& counted = slots[key + '|' + pod.identity.ip + '|' + std::to_string(pod.identity.port.value_or(0))];
    pod.record = std::make_shared<PodRecord>(id, key.substr(slash + 1), key.substr(0, slash), pod.identity.ip,
                                             pod.identity.host, counted.lock());
    counted = pod.record->slots();
    pod.loaded_models = no_models();
    pod.process_start.reset();
    pod.up = true;
    changes.joined.push_back(pod.record);
  }

  /// Gives the slot back too; a static pod that is down has had its hook already.
  void end_incarnation(Live& pod, Changes& changes) {
    if (pod.up) changes.left.push_back(pod.record);
    by_slot[pod.record->id().slot] = nullptr;
    changes.free_slots.push_back(pod.record->id().slot);
  }

  void reconcile(const std::vector<Pod>& pods, Changes& changes);
  std::shared_ptr<const ServerEntry> entry_of(const std::string& key, const Server& server) const;
  void publish(Changes& changes, std::optional<std::vector<ModelRoute>> routes, const std::vector<std::string>* only);
  void renew_targets();
};

/// Brings `live` and the members of `servers` in line with the pods. Cost: pods plus matches, times a logarithm.
void Store::Impl::reconcile(const std::vector<Pod>& pods, Changes& changes) {
  LabelIndex index;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    if (routable(pods[i])) index.add(pods[i], static_cast<std::uint32_t>(i));
  }
  std::map<std::uint32_t, std::vector<const std::string*>> owners;  // pod number -> server keys, sorted
  for (const auto& [key, server] : servers) {
    for (const std::uint32_t number : index.find(server.spec.meta.ns, server.spec.selector)) {
      owners[number].push_back(&key);
    }
  }

  std::map<std::string, Live> next;
  for (const auto& [number, keys] : owners) {
    const Pod& pod = pods[number];
    auto node = live.extract(pod.meta.key());
    const bool known_pod = !node.empty();
    const auto it = known_pod ? next.insert(std::move(node)).position : next.try_emplace(pod.meta.key(), pod).first;
    Live& entry = it->second;
    if (Identity identity(pod); !known_pod || entry.identity != identity) {
      if (known_pod) end_incarnation(entry, changes);
      entry.identity = std::move(identity);
      begin_incarnation(it->first, entry, changes);
    }
    entry.servers.clear();
    entry.labels.clear();
    for (const std::string* key : keys) {
      entry.servers.push_back(*key);
      if (servers.at(*key).spec.pd_group) entry.labels = pod.meta.labels;
    }
    // A pod of several servers is scraped once, as the first of them says.
    const ModelServer& owner = servers.at(entry.servers.front()).spec;
    entry.target = {nullptr, owner.engine, pod.port.value_or(owner.port), owner.https, pod.is_static};
  }
  for (auto& [key, gone] : live) end_incarnation(gone, changes);
  live = std::move(next);
  std::erase_if(slots, [](const auto& entry) { return entry.second.expired(); });
  for (auto& [key, entry] : live) {
    for (const std::string& server : entry.servers) servers.at(server).members.push_back(&entry);
  }
}

std::shared_ptr<const ServerEntry> Store::Impl::entry_of(const std::string& key, const Server& server) const {
  std::vector<PodEntry> pods;
  std::vector<const Labels*> labels;
  pods.reserve(server.members.size());
  for (const Live* pod : server.members) {
    if (!pod->up) continue;
    pods.push_back({pod->record, pod->loaded_models, pod->identity.port.value_or(server.spec.port)});
    if (server.spec.pd_group) labels.push_back(&pod->labels);
  }
  std::vector<PdGroupPods> groups;
  if (server.spec.pd_group) groups = form_pd_groups(*server.spec.pd_group, labels, pods);
  const std::shared_ptr<const ServerEntry> before = current->server(key);
  if (before && same_entries(before->pods, pods) && before->groups == groups &&
      same_for_requests(before->spec, server.spec))
    return before;
  return std::make_shared<const ServerEntry>(
      ServerEntry{key, server.spec, std::move(pods), std::move(groups), ++last_pods_version});
}

void Store::Impl::renew_targets() {
  std::vector<ScrapeTarget> next;
  next.reserve(live.size());
  for (auto& [key, pod] : live) {
    next.push_back(pod.target);
    next.back().record = pod.record;
  }
  if (same_targets(targets, next)) return;
  targets = std::move(next);
  if (hooks.targets) hooks.targets(targets);
}

/// Runs the hooks in the order of the header. \param routes all routes, sorted; empty: as they are.
/// \param only the servers that may differ; null: all.
void Store::Impl::publish(Changes& changes, std::optional<std::vector<ModelRoute>> routes,
                          const std::vector<std::string>* only) {
  auto next = std::make_shared<Snapshot>();
  bool changed = false;
  if (only != nullptr) {
    next->servers = current->servers;
    for (const std::string& key : *only) {
      auto& slot = next->servers.at(key);
      auto entry = entry_of(key, servers.at(key));
      changed = changed || entry != slot;
      slot = std::move(entry);
    }
  } else {
    for (const auto& [key, server] : servers) {
      next->servers.emplace_hint(next->servers.end(), key, entry_of(key, server));
    }
    changed = next->servers != current->servers;
  }
  if (!routes) {
    next->routes = current->routes;
  } else {
    std::unordered_map<std::string, const std::shared_ptr<const ModelRoute>*> before;
    before.reserve(current->routes.size());
    for (const auto& route : current->routes) before.emplace(route->meta.key(), &route);
    next->routes.reserve(routes->size());
    for (ModelRoute& route : *routes) {
      const auto it = before.find(route.meta.key());
      const bool same = it != before.end() && same_for_requests(**it->second, route);
      next->routes.push_back(same ? *it->second : std::make_shared<const ModelRoute>(std::move(route)));
    }
    changed = changed || next->routes != current->routes;
  }
  if (changed) {
    next->version = current->version + 1;
    current = next;
  }

  for (const RecordPtr& record : changes.joined) {
    if (hooks.pod_joined) hooks.pod_joined(*record);
  }
  for (const RecordPtr& record : changes.left) {
    record->mark_left();
    if (hooks.pod_left) hooks.pod_left(*record);
  }
  free_slots.insert(free_slots.end(), changes.free_slots.begin(), changes.free_slots.end());
  if (changed && hooks.snapshot) hooks.snapshot(current);
  renew_targets();
}

Store::Store(Hooks hooks) : impl_(std::make_unique<Impl>()) { impl_->hooks = std::move(hooks); }
Store::~Store() = default;

void Store::replace(ResourceSet desired) {
  const auto& warn = impl_->hooks.log_warning;
  keep_last(desired.routes, "ModelRoute", warn);
  keep_last(desired.servers, "ModelServer", warn);
  keep_last(desired.pods, "Pod", warn);

  impl_->servers.clear();
  for (const ModelServer& server : desired.servers) impl_->servers.emplace(server.meta.key(), Server{server, {}});
  Impl::Changes changes;
  impl_->reconcile(desired.pods, changes);

  std::vector<ModelRoute> routes = desired.routes;
  std::sort(routes.begin(), routes.end(), route_before);
  impl_->known = std::move(desired);
  impl_->publish(changes, std::move(routes), nullptr);
}

void Store::set_loaded_models(PodId pod, std::vector<std::string> models) {
  Live* const entry = impl_->find(pod);
  if (entry == nullptr || !entry->up || *entry->loaded_models == models) return;
  entry->loaded_models = std::make_shared<const std::vector<std::string>>(std::move(models));
  Impl::Changes none;
  impl_->publish(none, std::nullopt, &entry->servers);
}

void Store::set_reachable(PodId pod, bool reachable) {
  Live* const entry = impl_->find(pod);
  if (entry == nullptr || !entry->identity.is_static || entry->up == reachable) return;
  Impl::Changes changes;
  if (reachable) {
    impl_->end_incarnation(*entry, changes);
    impl_->begin_incarnation(entry->record->key(), *entry, changes);
  } else {
    changes.left.push_back(entry->record);
    entry->up = false;
  }
  impl_->publish(changes, std::nullopt, &entry->servers);
}

void Store::set_process_start(PodId pod, double unix_seconds) {
  Live* const entry = impl_->find(pod);
  if (entry == nullptr || !entry->up || entry->identity.container_start || !std::isfinite(unix_seconds)) return;
  if (!entry->process_start) {
    entry->process_start = unix_seconds;
    return;
  }
  if (!(unix_seconds > *entry->process_start + process_start_tolerance_seconds)) return;
  Impl::Changes changes;
  impl_->end_incarnation(*entry, changes);
  impl_->begin_incarnation(entry->record->key(), *entry, changes);
  entry->process_start = unix_seconds;
  impl_->publish(changes, std::nullopt, &entry->servers);
}

std::string Store::incarnation(PodId pod) const {
  const Live* const entry = impl_->find(pod);
  if (entry == nullptr || !entry->up) return {};
  const Identity& identity = entry->identity;
  // In milliseconds, as engines print more digits than a double keeps apart from others.
  std::string start;
  if (identity.container_start) {
    start = "container " + *identity.container_start;
  } else if (entry->process_start) {
    start = "engine " + std::to_string(std::llround(*entry->process_start * 1000));
  } else {
    return {};
  }
  std::string text = entry->record->key();
  text.append("|").append(identity.uid).append("|").append(identity.ip);
  text.append("|").append(std::to_string(identity.port.value_or(0))).append("|").append(start);
  return text;
}

std::shared_ptr<const Snapshot> Store::snapshot() const { return impl_->current; }
const ResourceSet& Store::resources() const { return impl_->known; }

}  // namespace warmroute::model
