#include "app/cluster_duties.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iterator>

#include "base/log.hpp"

namespace warmroute::app {
namespace {

status::Moment now() { return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()); }

std::int64_t unix_seconds() { return std::chrono::floor<std::chrono::seconds>(now()).time_since_epoch().count(); }

/// The pod's name, which container runtimes set as HOSTNAME.
std::string host_name() {
  if (const char* given = std::getenv("HOSTNAME"); given != nullptr && *given != '\0') return given;
  std::array<char, 256> host{};
  return ::gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "";
}

/// The host and the start: a container that was restarted is not the holder that it was.
std::string make_identity() { return fmt::format("{}_{:x}", host_name(), now().time_since_epoch().count()); }

std::string namespace_of(const Options& options, const kube::Config& config) {
  if (options.pod_namespace_given) return options.pod_namespace;
  return config.origin == "in-cluster" ? config.ns : std::string();
}

net::Task<Result<kube::Response>> refuse(kube::Request /*not sent*/) {
  co_return value_error("POD_NAMESPACE is not set");
}

}  // namespace

ClusterDuties::ClusterDuties(net::io_context& control, net::TaskGroup& tasks, kube::Api api, const kube::Config& config,
                             const Options& options, const model::Store& store, Unusable unusable,
                             metrics::Registry& registry)
    : control_(control),
      tasks_(tasks),
      options_(options),
      registry_(registry),
      api_(std::move(api)),
      namespace_(namespace_of(options, config)),
      tls_(net::ServerTls::create_empty()) {
  if (namespace_.empty()) {
    log::info("outside of a cluster and without POD_NAMESPACE: no Lease, status and Events");
    api_ = refuse;
  } else {
    build_leader(store, std::move(unusable));
  }
}

void ClusterDuties::build_leader(const model::Store& store, Unusable unusable) {
  const std::string identity = make_identity();
  auto& leads = registry_.gauge("warmroute_leader", "1: this replica writes status and renews the certificate");
  status::WriterOptions writer;
  writer.instance = identity;
  status::WriterHooks writer_hooks;
  writer_hooks.leads = [this] { return lease_->leads(); };
  writer_hooks.verdicts = [&store, unusable = std::move(unusable)] {
    auto verdicts = status::judge(store.resources(), *store.snapshot());
    auto more = unusable();
    std::move(more.begin(), more.end(), std::back_inserter(verdicts));
    return verdicts;
  };
  writer_hooks.now = now;
  writer_ = std::make_unique<status::Writer>(control_, api_, writer, writer_hooks);
  status::LeaseOptions lease;
  lease.ns = namespace_;
  lease.identity = identity;
  status::LeaseHooks lease_hooks;
  lease_hooks.now = now;
  lease_hooks.changed = [this, &leads](bool held) {
    leads.set(held ? 1 : 0);
    writer_->wake();
  };
  lease_ = std::make_unique<status::Lease>(control_, api_, lease, lease_hooks);
}

ClusterDuties::~ClusterDuties() = default;

Result<void> ClusterDuties::start() {
  if (options_.enable_webhook)
    if (auto started = start_webhook(); !started) return started;
  if (!lease_) return {};
  tasks_.spawn("lease", lease_->run());
  tasks_.spawn("status", writer_->run());
  return {};
}

Result<void> ClusterDuties::start_webhook() {
  server_ = std::make_unique<webhook::Server>(control_, *tls_, [this](webhook::Server::Outcome outcome) {
    registry_.counter("warmroute_webhook_reviews_total", "Admission reviews by outcome", {{"outcome", name(outcome)}})
        .inc();
  });
  const auto port = static_cast<std::uint16_t>(options_.webhook_port);
  if (auto opened = server_->listen(options_.bind_address, port); !opened) return opened.error();
  log::info("Starting webhook server on :{}", port);
  webhook::KeeperOptions keeper;
  keeper.ns = namespace_;
  keeper.secret_name = options_.cert_secret_name;
  keeper.service_name = options_.webhook_service_name;
  keeper.certificate_file = options_.webhook_tls_cert_file;
  keeper.key_file = options_.webhook_tls_private_key_file;
  auto& until = registry_.gauge("warmroute_webhook_certificate_expiry_seconds",
                                "Unix time at which the webhook's certificate ends; 0: there is none");
  webhook::KeeperHooks hooks;
  hooks.leads = [this] { return lease_ && lease_->leads(); };
  hooks.now = unix_seconds;
  hooks.in_force = [&until](std::int64_t end) { until.set(static_cast<double>(end)); };
  keeper_ = std::make_unique<webhook::CertificateKeeper>(control_, api_, *tls_, keeper, hooks);
  tasks_.spawn("webhook certificate", keeper_->run());
  return {};
}

void ClusterDuties::resources_changed() {
  if (writer_) writer_->wake();
}

void ClusterDuties::begin_drain() {
  if (!lease_) return;
  writer_->stop();
  tasks_.spawn("lease release", lease_->release());
}

}  // namespace warmroute::app
