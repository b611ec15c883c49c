#include "app/healthcheck.hpp"

#include <catch2/catch.hpp>

namespace {

using namespace std::string_literals;
using warmroute::app::health_request;
using warmroute::app::Options;
using warmroute::app::router_flags;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("flags of a running router", "[healthcheck]") {
  CHECK(router_flags("/usr/bin/warmroute\0--port=9000\0--v\0"s
                     "4\0"s) == Words{"--port=9000", "--v", "4"});
  CHECK(router_flags("kthena-router\0--tls-cert\0\0--debug-port=1\0"s) == Words{"--tls-cert", "", "--debug-port=1"});
  CHECK(router_flags("/kthena-router\0--port=9000"s) == Words{"--port=9000"});
  CHECK(router_flags("/usr/bin/warmroute\0"s).empty());
}

TEST_CASE("other programs have no flags for us", "[healthcheck]") {
  CHECK(router_flags("").empty());
  CHECK(router_flags("/sbin/init\0--port=9000\0"s).empty());
  CHECK(router_flags("/usr/bin/warmroute-wrapper\0--port=9000\0"s).empty());
  CHECK(router_flags("/warmroute/tini\0--\0warmroute\0"s).empty());
}

TEST_CASE("where the router is asked", "[healthcheck]") {
  Options options;
  auto request = health_request(options);
  CHECK(request.ip == "127.0.0.1");
  CHECK(request.port == 8080);
  CHECK(request.target == "/healthz");
  CHECK(request.timeout == std::chrono::seconds(2));

  options.port = "9000";
  CHECK(health_request(options).port == 9000);
  for (const char* wrong : {"", "http", "0", "65536", "-1", "80 "}) {
    options.port = wrong;
    CHECK(health_request(options).port == 0);
  }

  const auto asked = [&options](const char* bind) {
    options.bind_address = bind;
    return health_request(options).ip;
  };
  CHECK(asked("0.0.0.0") == "127.0.0.1");
  CHECK(asked("::") == "::1");
  CHECK(asked("10.0.0.7") == "10.0.0.7");
  CHECK(asked("::1") == "::1");
}
