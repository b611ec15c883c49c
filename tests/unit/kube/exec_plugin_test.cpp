#include "kube/exec_plugin.hpp"

#include <catch2/catch.hpp>

#include "kube/child_process.hpp"
#include "support/run_coro.hpp"

namespace warmroute::kube {
namespace {

constexpr const char* v1 = "client.authentication.k8s.io/v1";

Result<std::string> run(Command command) {
  net::io_context io;
  Result<std::string> out = std::string();
  test::run_coro(io, [](net::io_context& on, Command what, Result<std::string>& into) -> net::Task<> {
    into = co_await run_command(on, std::move(what));
  }(io, std::move(command), out));
  return out;
}

Command shell(const std::string& script) {
  Command command;
  command.program = "sh";
  command.args = {"-c", script};
  return command;
}

std::string credential(const std::string& status, const std::string& version = v1) {
  return R"({"apiVersion":")" + version + R"(","kind":"ExecCredential","status":)" + status + "}";
}

}  // namespace

TEST_CASE("A command's output is read, its failures are told") {
  CHECK(*run(shell("printf 'a\\nb'")) == "a\nb");
  CHECK(run(shell("exit 3")).error().detail == "exit code 3");
  CHECK(run(shell("kill -9 $$")).error().detail == "signal 9");
  Command absent;
  absent.program = "/nonexistent/plugin";
  CHECK(run(absent).error().detail == "No such file or directory");
  auto chatty = shell("head -c 100000 /dev/zero");
  chatty.output_limit_bytes = 1000;
  CHECK(run(chatty).error().code == Errc::too_large);
}

TEST_CASE("A command that hangs is killed with its children") {
  auto command = shell("sleep 600 & sleep 600");
  command.timeout = std::chrono::milliseconds(100);
  const auto before = net::Clock::now();
  CHECK(run(command).error().code == Errc::timeout);
  CHECK(net::Clock::now() - before < std::chrono::seconds(5));
  auto closed_output = shell("exec >&-; sleep 600");
  closed_output.timeout = std::chrono::milliseconds(100);
  CHECK(run(closed_output).error().code == Errc::timeout);
}

TEST_CASE("A command gets its variables and none of our descriptors") {
  auto command = shell("printf %s \"$WR_X\"; ls /proc/self/fd | wc -l");
  command.extra_env = {"WR_X=y "};
  const int kept = ::dup(2);  // without close-on-exec, as Asio opens sockets
  const auto output = run(command);
  ::close(kept);
  REQUIRE(output.has_value());
  CHECK(*output == "y 4\n");  // 0, 1, 2 and that of the folder itself
}

TEST_CASE("An ExecCredential is read with all its parts") {
  const auto good = parse_exec_credential(
      credential(
          R"({"token":"t","clientCertificateData":"C","clientKeyData":"K","expirationTimestamp":"2026-01-02T03:04:05Z"})"),
      v1);
  REQUIRE(good.has_value());
  CHECK(good->token == "t");
  CHECK(good->certificate_pem == "C");
  CHECK(good->key_pem == "K");
  CHECK(good->expires == 1767323045);
  CHECK_FALSE(parse_exec_credential(credential(R"({"token":"t"})"), v1)->expires);
  for (const auto& wrong :
       {std::string(""), std::string("{"), std::string("[]"), credential("{}"), credential("null"),
        credential(R"({"token":1})"), credential(R"({"clientKeyData":"K","token":"t"})"),
        credential(R"({"token":"t","expirationTimestamp":"soon"})"),
        credential(R"({"token":"t"})", "client.authentication.k8s.io/v1beta1"),
        std::string(R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"Pod","status":{"token":"t"}})")}) {
    INFO(wrong);
    CHECK_FALSE(parse_exec_credential(wrong, v1).has_value());
  }
}

TEST_CASE("A plugin is told of the cluster when it asks for it") {
  Config config;
  config.server = "https://a\"b";
  config.insecure = true;
  config.exec = ExecPlugin{};
  config.exec->api_version = v1;
  CHECK(exec_info(config, "") ==
        R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false}})");
  config.exec->provide_cluster_info = true;
  CHECK(exec_info(config, "CA") ==
        R"({"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","spec":{"interactive":false,)"
        R"("cluster":{"server":"https://a\"b","insecure-skip-tls-verify":true,"certificate-authority-data":"Q0E="}}})");
}

}  // namespace warmroute::kube
