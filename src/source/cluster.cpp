#include "source/cluster.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "config/resource_objects.hpp"
#include "source/pod_watches.hpp"

namespace warmroute::source {
namespace {

using kube::ObjectCache;
using net::Clock;

constexpr const char* group_path = "/apis/networking.serving.volcano.sh/v1alpha1/";

/// A pod that left is out of the routing table well within a second.
constexpr std::chrono::milliseconds gather_limit{200};

/// A list with what it fills.
template <class T>
struct Followed {
  std::shared_ptr<ObjectCache<T>> objects;
  std::unique_ptr<kube::Reflector> reflector;
};

template <class T>
std::vector<T> all_of(const ObjectCache<T>& cache) {
  std::vector<T> out;
  out.reserve(cache.size());
  for (const auto& [key, entry] : cache.entries()) out.push_back(entry.object);
  return out;
}

}  // namespace

struct Cluster::Impl {
  Impl(net::io_context& io, net::TaskGroup& group, std::shared_ptr<kube::Client> api, ClusterHooks to, ClusterTiming at)
      : control(io),
        tasks(group),
        client(std::move(api)),
        hooks(std::move(to)),
        timing(at),
        gather(io.get_executor()) {}

  net::io_context& control;
  net::TaskGroup& tasks;
  const std::shared_ptr<kube::Client> client;
  const ClusterHooks hooks;
  const ClusterTiming timing;
  std::weak_ptr<Impl> self;
  net::Timer gather;
  bool gathering = false, synced = false, servers_changed = false;
  Clock::duration last_cost{0};  ///< of the last new state
  const std::shared_ptr<kube::ReflectorCounters> counters = std::make_shared<kube::ReflectorCounters>();
  Followed<model::ModelRoute> routes;
  Followed<model::ModelServer> servers;
  std::vector<PodSelection> wanted;
  /// The wanted ones, and until those of their namespace are synced also those that they replace: a ModelServer whose
  /// selector changed keeps its pods meanwhile.
  std::map<PodSelection, Followed<model::Pod>> pods;

  template <class T>
  Followed<T> follow(std::string name, std::string path, std::string selector, typename ObjectCache<T>::Read read,
                     std::function<void()> changed) {
    Followed<T> out;
    out.objects = std::make_shared<ObjectCache<T>>(read, [this](const config::Diagnostics& found) {
      if (hooks.problems) hooks.problems(found);
    });
    kube::ReflectorSpec spec;
    spec.name = std::move(name);
    spec.path = std::move(path);
    spec.label_selector = std::move(selector);
    spec.timing = timing.watch;
    out.reflector = std::make_unique<kube::Reflector>(control, tasks, client, out.objects, counters, std::move(spec),
                                                      std::move(changed));
    out.reflector->start();
    return out;
  }

  void start() {
    routes = follow<model::ModelRoute>("ModelRoutes", std::string(group_path) + "modelroutes", "",
                                       config::model_route_of, [this] { changed(); });
    servers = follow<model::ModelServer>("ModelServers", std::string(group_path) + "modelservers", "",
                                         config::model_server_of, [this] {
                                           servers_changed = true;
                                           changed();
                                         });
  }

  void select_pods() {
    wanted = pod_selections(all_of(*servers.objects));
    for (const auto& selection : wanted) {
      if (pods.count(selection) != 0) continue;
      log::v(1, "Kubernetes: Pods of {} with {} are followed from now on", selection.ns, selection.selector());
      pods.emplace(selection, follow<model::Pod>("Pods of " + selection.ns + " with " + selection.selector(),
                                                 "/api/v1/namespaces/" + selection.ns + "/pods", selection.selector(),
                                                 config::pod_of, [this] { changed(); }));
    }
  }

  [[nodiscard]] bool is_wanted(const PodSelection& selection) const {
    return std::binary_search(wanted.begin(), wanted.end(), selection);
  }
  /// Every wanted list of the namespace was had.
  [[nodiscard]] bool pods_synced(const std::string* ns) const {
    return std::all_of(wanted.begin(), wanted.end(), [&](const PodSelection& selection) {
      return (ns != nullptr && selection.ns != *ns) || pods.at(selection).reflector->synced();
    });
  }

  void drop_unwanted() {
    for (auto it = pods.begin(); it != pods.end();) {
      const bool of_use = it->second.reflector->synced() && !pods_synced(&it->first.ns);
      if (is_wanted(it->first) || of_use) {
        ++it;
        continue;
      }
      log::v(1, "Kubernetes: Pods of {} with {} are not followed any more", it->first.ns, it->first.selector());
      it = pods.erase(it);
    }
  }

  void changed() {
    if (std::exchange(gathering, true)) return;
    // A new state costs what the whole state is large, so many changes of a large one are gathered for longer.
    gather.expires_after(std::clamp<Clock::duration>(4 * last_cost, timing.gather, gather_limit));
    gather.async_wait([weak = self](const net::error_code& ec) {
      const auto impl = weak.lock();
      if (ec || !impl) return;
      impl->gathering = false;
      const auto begun = Clock::now();
      impl->publish();
      impl->last_cost = Clock::now() - begun;
    });
  }

  void publish() {
    if (std::exchange(servers_changed, false)) select_pods();
    drop_unwanted();
    if (!synced) {
      const bool lists = routes.reflector->synced() && servers.reflector->synced();
      if (!lists || !pods_synced(nullptr)) return;
      synced = true;
      log::info("Kubernetes: in sync: {} ModelRoutes, {} ModelServers, {} watches of Pods", routes.objects->size(),
                servers.objects->size(), pods.size());
    }
    model::ResourceSet state{all_of(*routes.objects), all_of(*servers.objects), selected_pods()};
    if (hooks.changed) hooks.changed(std::move(state));
  }

  /// A pod that several lists hold is taken from the one that knows it best.
  [[nodiscard]] std::vector<model::Pod> selected_pods() const {
    std::map<std::string_view, const ObjectCache<model::Pod>::Entry*> newest;
    for (const auto& [selection, followed] : pods) {
      for (const auto& [key, entry] : followed.objects->entries()) {
        const auto [it, added] = newest.emplace(key, &entry);
        if (!added && it->second->version < entry.version) it->second = &entry;
      }
    }
    std::vector<model::Pod> out;
    out.reserve(newest.size());
    for (const auto& [key, entry] : newest) out.push_back(entry->object);
    return out;
  }

  [[nodiscard]] ClusterStatus status() const {
    ClusterStatus out;
    out.synced = synced;
    out.counters = *counters;
    const auto now = Clock::now();
    const auto add = [&](const std::unique_ptr<kube::Reflector>& reflector) {
      if (!reflector) return;
      ++out.watches;
      if (reflector->connected()) ++out.connected;
      out.age = std::max(out.age, reflector->age(now));
    };
    add(routes.reflector);
    add(servers.reflector);
    for (const auto& selection : wanted) add(pods.at(selection).reflector);
    return out;
  }
};

Cluster::Cluster(net::io_context& control, net::TaskGroup& tasks, std::shared_ptr<kube::Client> client,
                 ClusterHooks hooks, ClusterTiming timing)
    : impl_(std::make_shared<Impl>(control, tasks, std::move(client), std::move(hooks), timing)) {
  impl_->self = impl_;
}

Cluster::~Cluster() = default;

void Cluster::start() { impl_->start(); }

ClusterStatus Cluster::status() const { return impl_->status(); }

std::map<std::string, kube::Unusable> Cluster::unusable_routes() const {
  return impl_->routes.objects ? impl_->routes.objects->unusable() : std::map<std::string, kube::Unusable>();
}

std::map<std::string, kube::Unusable> Cluster::unusable_servers() const {
  return impl_->servers.objects ? impl_->servers.objects->unusable() : std::map<std::string, kube::Unusable>();
}

}  // namespace warmroute::source
