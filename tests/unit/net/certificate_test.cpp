#include "net/certificate.hpp"

#include <catch2/catch.hpp>

#include "net/server_tls.hpp"

using namespace warmroute;
using namespace warmroute::net;

namespace {

CertificateOrder order() {
  CertificateOrder order;
  order.authority = "kthena-webhook-ca";
  order.organisation = "Volcano";
  order.dns_names = {"kthena-router-webhook.ns.svc", "kthena-router-webhook.ns.svc.cluster.local"};
  order.from = 1'700'000'000;
  order.until = 2'000'000'000;
  return order;
}

}  // namespace

TEST_CASE("A made certificate says what was ordered, and its key belongs to it", "[webhook]") {
  const auto made = make_certificate(order());
  REQUIRE(made.has_value());
  const auto facts = read_certificate(made->certificate);
  REQUIRE(facts.has_value());
  CHECK(facts->issuer == "kthena-webhook-ca");
  CHECK(facts->from == 1'700'000'000);
  CHECK(facts->until == 2'000'000'000);
  CHECK(facts->dns_names == order().dns_names);
  CHECK(read_certificate(made->ca)->issuer == "kthena-webhook-ca");

  const auto tls = ServerTls::create_empty();
  CHECK(tls->session(0) == nullptr);
  const auto taken = tls->use(made->certificate, made->key, "the test");
  REQUIRE(taken.has_value());
  CHECK(*taken);
  CHECK(tls->session(0) != nullptr);
  const auto again = tls->use(made->certificate, made->key, "the test");
  REQUIRE(again.has_value());
  CHECK_FALSE(*again);
  const auto other = make_certificate(order());
  const auto mixed = tls->use(other->certificate, made->key, "the test");
  REQUIRE(mixed.has_error());
  CHECK(mixed.error().detail.find("the test") != std::string::npos);
  CHECK(tls->session(0) != nullptr);  // the old pair stays
}

TEST_CASE("A long name goes without a common name", "[webhook]") {
  CertificateOrder longer = order();
  longer.dns_names = {std::string(60, 'x') + ".namespace.svc"};
  const auto made = make_certificate(longer);
  REQUIRE(made.has_value());
  CHECK(read_certificate(made->certificate)->dns_names == longer.dns_names);
}

TEST_CASE("A bundle is split, without what has ended", "[webhook]") {
  const auto first = make_certificate(order());
  CertificateOrder early = order();
  early.until = 1'800'000'000;
  const auto second = make_certificate(early);
  const std::string bundle = first->ca + "some words\n" + second->ca;
  CHECK(split_bundle(bundle, 1'750'000'000) == std::vector<std::string>{first->ca, second->ca});
  CHECK(split_bundle(bundle, 1'900'000'000) == std::vector<std::string>{first->ca});
  CHECK(split_bundle("nothing", 0).empty());
  CHECK(read_certificate("nothing").has_error());
}
