#include "webhook/certificate_keeper.hpp"

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "net/task_group.hpp"
#include "support/fake_cluster.hpp"
#include "support/run_coro.hpp"

using namespace warmroute;
using namespace warmroute::webhook;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t now = 1'800'000'000, day = 86400;

struct Folder {
  Folder() : path(std::filesystem::temp_directory_path() / ("wr-keeper-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  void write(const net::MadeCertificate& made) const {
    std::ofstream(path / "tls.crt") << made.certificate;
    std::ofstream(path / "tls.key") << made.key;
  }
  std::filesystem::path path;
};

struct Replica {
  Replica(net::io_context& io, test::FakeCluster& cluster, const Folder& folder)
      : tls(net::ServerTls::create_empty()), keeper(io, cluster.api(), *tls, options(folder), hooks()) {}
  static KeeperOptions options(const Folder& folder) {
    KeeperOptions options;
    options.ns = "ns";
    options.secret_name = "certs";
    options.service_name = "hook";
    options.certificate_file = folder.path / "tls.crt";
    options.key_file = folder.path / "tls.key";
    options.period = 30ms;
    options.retry = 10ms;
    return options;
  }
  KeeperHooks hooks() {
    return {[this] { return leads; }, [] { return now; }, [this](std::int64_t end) { until = end; }};
  }
  std::unique_ptr<net::ServerTls> tls;
  bool leads = false;
  std::int64_t until = 0;
  CertificateKeeper keeper;
};

net::MadeCertificate make(std::int64_t until, const std::string& authority = "kthena-webhook-ca",
                          const std::string& name = "hook.ns.svc") {
  net::CertificateOrder order;
  order.authority = authority;
  order.dns_names = {name};
  order.from = now - 300 * day;
  order.until = until;
  return *net::make_certificate(order);
}
StoredCertificate stored(const net::MadeCertificate& made) { return {"1", made.certificate, made.key, made.ca}; }

struct World {
  net::io_context io;
  net::TaskGroup tasks{io};
  test::FakeCluster cluster{io};
  Folder folder;
  bool wait(const std::function<bool()>& reached, std::chrono::milliseconds limit = 5s) {
    return test::run_until(io, reached, limit);
  }
};

}  // namespace

TEST_CASE("Without a certificate anywhere one is made, stored and trusted", "[webhook]") {
  World world;
  world.cluster.bundles = {{"a", ""}, {"b", "old"}};
  Replica replica(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", replica.keeper.run());
  REQUIRE(world.wait([&] { return replica.until != 0 && world.cluster.count("PATCH") == 1; }));
  REQUIRE(world.cluster.secret);
  CHECK(world.cluster.bundles ==
        std::map<std::string, std::string>{{"a", world.cluster.secret->ca}, {"b", world.cluster.secret->ca}});
  const auto facts = net::read_certificate(world.cluster.secret->certificate);
  CHECK(facts->issuer == "kthena-webhook-ca");
  CHECK(facts->dns_names == std::vector<std::string>{"hook.ns.svc", "hook.ns.svc.cluster.local"});
  CHECK(facts->until - now == 3650 * day);
  CHECK(world.cluster.bodies.at(1).find(R"("type":"kubernetes.io/tls")") != std::string::npos);
  CHECK(replica.tls->session(0) != nullptr);
  CHECK_FALSE(world.wait([&] { return world.cluster.count("PATCH") > 1; }, 150ms));  // and then it is quiet
  CHECK(world.cluster.count("POST") == 1);
}

TEST_CASE("Replicas that race for the Secret agree", "[webhook]") {
  World world;
  world.cluster.bundles = {{"a", ""}};
  Replica first(world.io, world.cluster, world.folder), second(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", first.keeper.run());
  world.tasks.spawn("keeper", second.keeper.run());
  REQUIRE(world.wait([&] { return first.until != 0 && second.until != 0; }));
  CHECK(world.cluster.count("POST") == 2);
  // Both have what is stored: taking it again changes nothing.
  for (const auto* replica : {&first, &second}) {
    const auto taken = replica->tls->use(world.cluster.secret->certificate, world.cluster.secret->key, "test");
    REQUIRE(taken.has_value());
    CHECK_FALSE(*taken);
  }
  REQUIRE(world.wait([&] { return world.cluster.bundles["a"] == world.cluster.secret->ca; }));
}

TEST_CASE("The Secret comes before the files, and a new one is taken without a restart", "[webhook]") {
  World world;
  world.folder.write(make(now + 100 * day));
  world.cluster.secret = stored(make(now + 200 * day));
  Replica replica(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", replica.keeper.run());
  REQUIRE(world.wait([&] { return replica.until != 0; }));
  CHECK(replica.until == now + 200 * day);
  world.cluster.secret = stored(make(now + 250 * day));
  REQUIRE(world.wait([&] { return replica.until == now + 250 * day; }));
  world.cluster.secret->certificate = "broken";
  REQUIRE(world.wait([&] { return replica.until == now + 100 * day; }));  // the files then
  CHECK(world.cluster.count("POST") == 0);
}

TEST_CASE("Files alone: no API server, no right, no file at first", "[webhook]") {
  World world;
  world.cluster.refuse["GET secrets"] = GENERATE(0, 403, 500);
  Replica replica(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", replica.keeper.run());
  REQUIRE(world.wait([&] { return world.cluster.asked.size() >= 3; }));
  CHECK(replica.until == 0);  // nothing to serve with, and nothing was made
  CHECK(world.cluster.count("POST") == 0);
  world.folder.write(make(now + 100 * day));
  REQUIRE(world.wait([&] { return replica.until == now + 100 * day; }));
  std::ofstream(world.folder.path / "tls.key") << "half a key";  // somebody is writing it
  const auto looks = world.cluster.asked.size();
  REQUIRE(world.wait([&] { return world.cluster.asked.size() >= looks + 2; }));
  world.folder.write(make(now + 200 * day));
  REQUIRE(world.wait([&] { return replica.until == now + 200 * day; }));
  std::filesystem::remove(world.folder.path / "tls.key");
  CHECK_FALSE(world.wait([&] { return replica.tls->session(0) == nullptr; }, 100ms));
}

TEST_CASE("A Secret that cannot be stored leaves the webhook without a certificate, and alive", "[webhook]") {
  World world;
  world.cluster.refuse["POST secrets"] = 403;
  Replica replica(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", replica.keeper.run());
  REQUIRE(world.wait([&] { return world.cluster.count("POST") >= 2; }));
  CHECK(replica.tls->session(0) == nullptr);
  world.cluster.refuse.clear();
  CHECK(world.wait([&] { return replica.tls->session(0) != nullptr; }));
}

TEST_CASE("The leader renews what was made here, and trusts the old CA beside the new", "[webhook]") {
  World world;
  const auto old = make(now + 10 * day);
  world.cluster.bundles = {{"a", old.ca}};
  world.cluster.secret = stored(old);
  Replica leader(world.io, world.cluster, world.folder), other(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", other.keeper.run());
  REQUIRE(world.wait([&] { return other.until == now + 10 * day && world.cluster.asked.size() > 6; }));
  CHECK(world.cluster.secret->certificate == old.certificate);
  leader.leads = true;
  world.tasks.spawn("keeper", leader.keeper.run());
  REQUIRE(world.wait([&] { return leader.until == now + 3650 * day && other.until == leader.until; }));
  const auto bundle = net::split_bundle(world.cluster.secret->ca, now);
  REQUIRE(bundle.size() == 2);
  CHECK(bundle[1] == old.ca);
  CHECK(world.cluster.bundles["a"] == world.cluster.secret->ca);
  // The API server trusted the new CA before the Secret was written.
  std::vector<std::string> writes;
  for (const auto& each : world.cluster.asked)
    if (each.rfind("PATCH", 0) == 0) writes.push_back(each.substr(each.rfind('/') + 1));
  CHECK(writes == std::vector<std::string>{"kthena-router-validating-webhook", "certs"});
}

TEST_CASE("A follower leaves a bundle that has its CA and more", "[webhook]") {
  World world;
  const auto old = make(now + 100 * day), next = make(now + 3650 * day);
  world.cluster.secret = stored(old);
  // As the leader leaves them just before it writes the Secret, and one that lacks what is needed.
  world.cluster.bundles = {{"a", next.ca + old.ca}, {"b", next.ca}};
  Replica follower(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", follower.keeper.run());
  REQUIRE(world.wait([&] { return world.cluster.bundles["b"] == old.ca; }));
  CHECK_FALSE(world.wait([&] { return world.cluster.count("PATCH") > 1; }, 100ms));
  CHECK(world.cluster.bundles["a"] == next.ca + old.ca);
}

TEST_CASE("A leader whose renewal came too late does not publish what it had", "[webhook]") {
  World world;
  const auto old = make(now + 10 * day), next = make(now + 3650 * day);
  world.cluster.secret = stored(old);
  world.cluster.bundles = {{"a", old.ca}};
  world.cluster.refuse["PATCH secrets"] = 409;
  Replica late(world.io, world.cluster, world.folder);
  late.leads = true;
  world.tasks.spawn("keeper", late.keeper.run());
  REQUIRE(world.wait([&] { return world.cluster.count("PATCH /api/v1/") == 1; }));
  world.cluster.secret = stored(next);  // another one's, with a CA of its own
  world.cluster.secret->resource_version = "9";
  world.cluster.bundles = {{"a", next.ca}};
  REQUIRE(world.wait([&] { return late.until == now + 3650 * day; }));
  CHECK(world.cluster.bundles["a"] == next.ca);
  // One write of the configuration, before the Secret was tried; none with the old CA.
  CHECK(world.cluster.count("PATCH /apis/admission") == 1);
}

TEST_CASE("What is renewed, and what is not", "[webhook]") {
  World world;
  const auto renewed = [&](const net::MadeCertificate& made, const char* ca = nullptr) {
    world.cluster.secret = stored(made);
    if (ca != nullptr) world.cluster.secret->ca = ca;
    Replica leader(world.io, world.cluster, world.folder);
    leader.leads = true;
    world.tasks.spawn("keeper", leader.keeper.run());
    const auto start = world.cluster.count("GET /api/v1/");
    CHECK(world.wait([&] { return world.cluster.count("GET /api/v1/") >= start + 3; }));
    return world.cluster.secret->certificate != made.certificate;
  };
  CHECK(renewed(make(now - day)));
  CHECK(renewed(make(now + 29 * day)));
  CHECK_FALSE(renewed(make(now + 31 * day)));
  CHECK(renewed(make(now + 300 * day, "kthena-webhook-ca", "other.ns.svc")));  // the Service has another name now
  CHECK_FALSE(renewed(make(now + day, "my-company-ca")));                      // somebody else's work
  CHECK_FALSE(renewed(make(now + day), ""));
  world.cluster.refuse["PATCH secrets"] = 403;  // kthena's chart
  CHECK_FALSE(renewed(make(now + day)));
  CHECK(world.cluster.count("PATCH /api/v1/") == 4);  // not tried again
}

TEST_CASE("A configuration that may not be read or is not there is no trouble for the certificate", "[webhook]") {
  World world;
  world.cluster.bundles = {{"a", ""}};
  world.cluster.refuse["GET validatingwebhook"] = GENERATE(403, 404, 0);
  Replica replica(world.io, world.cluster, world.folder);
  world.tasks.spawn("keeper", replica.keeper.run());
  CHECK(world.wait([&] { return replica.tls->session(0) != nullptr; }));
}
