#include "kube/config.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace warmroute::kube {
namespace {

/// A folder that is gone with the test.
class Folder {
 public:
  Folder() : path_("/tmp/wr-kube-test-XXXXXX") { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
    return path;
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string kubeconfig(const std::string& cluster, const std::string& user = "{token: secret}",
                       const std::string& context = "{cluster: c, user: u}") {
  return "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters:\n- name: c\n  cluster: " + cluster +
         "\nusers:\n- name: u\n  user: " + user + "\ncontexts:\n- name: x\n  context: " + context + "\n";
}

Config good(const std::string& text) {
  const auto config = parse_kubeconfig(text, "/etc/kube/config");
  INFO((config ? "" : config.error().detail));
  REQUIRE(config.has_value());
  return *config;
}

std::string error_of(const std::string& text) {
  const auto config = parse_kubeconfig(text, "/etc/kube/config");
  REQUIRE_FALSE(config.has_value());
  return config.error().detail;
}

}  // namespace

TEST_CASE("kubeconfig: server, CA and user of the current context") {
  const auto config = good(kubeconfig(
      "{server: 'https://api.example:6443/k8s/c1/', certificate-authority: pki/ca.crt, tls-server-name: kubernetes}",
      "{client-certificate-data: Y2VydA==, client-key: /keys/a.key, tokenFile: token}",
      "{cluster: c, user: u, namespace: prod}"));
  CHECK(config.tls);
  CHECK(config.host == "api.example");
  CHECK(config.port == 6443);
  CHECK(config.path_prefix == "/k8s/c1");
  CHECK(config.ca_file == "/etc/kube/pki/ca.crt");
  CHECK(config.tls_server_name == "kubernetes");
  CHECK(config.certificate_pem == "cert");
  CHECK(config.key_file == "/keys/a.key");
  CHECK(config.token_file == "/etc/kube/token");
  CHECK(config.ns == "prod");
  CHECK(config.origin == "/etc/kube/config, context x");
}

TEST_CASE("kubeconfig: forms of the server") {
  const auto server = [](const std::string& url) { return good(kubeconfig("{server: '" + url + "'}")); };
  CHECK(server("https://[fd00::1]:8443").host == "fd00::1");
  CHECK(server("https://[fd00::1]:8443").port == 8443);
  CHECK(server("https://[fd00::1]").port == 443);
  CHECK_FALSE(server("http://10.0.0.1:8080").tls);
  CHECK(server("http://10.0.0.1").port == 80);
  CHECK(server("api.example").tls);
  for (const char* wrong : {"ftp://a", "https://", "https://a:0", "https://a:x", "https://u@a", "https://a:70000"})
    CHECK_FALSE(error_of(kubeconfig("{server: '" + std::string(wrong) + "'}")).empty());
}

TEST_CASE("kubeconfig: exec plugins of both versions") {
  const auto config = good(kubeconfig(
      "{server: 'https://a'}",
      "{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: ./get-token, args: [--a, b], env: [{name: "
      "X, value: y}], provideClusterInfo: true, installHint: install it, interactiveMode: IfAvailable}}"));
  REQUIRE(config.exec);
  CHECK(config.exec->command == "/etc/kube/get-token");
  CHECK(config.exec->args == std::vector<std::string>{"--a", "b"});
  CHECK(config.exec->env.front() == std::pair<std::string, std::string>{"X", "y"});
  CHECK(config.exec->provide_cluster_info);
  CHECK(good(kubeconfig("{server: 'https://a'}",
                        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, interactiveMode: Never}}"))
            .exec->command == "aws");
  CHECK(error_of(kubeconfig("{server: 'https://a'}",
                            "{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: a}}"))
            .find("v1beta1") != std::string::npos);
}

TEST_CASE("kubeconfig: what is wrong is said with its place, and no secret is in it") {
  CHECK(error_of("{current-context: x}").find("no context named \"x\"") != std::string::npos);
  CHECK(error_of("{}").find("current-context is not set") != std::string::npos);
  CHECK(error_of(kubeconfig("{server: 'https://a'}", "{token: t}", "{cluster: other, user: u}"))
            .find("no cluster named") != std::string::npos);
  CHECK(error_of(kubeconfig("{server: 'https://a'}", "{auth-provider: {name: gcp}}")).find("not supported") !=
        std::string::npos);
  CHECK(error_of(kubeconfig("{server: 'https://a', proxy-url: 'http://p'}")).find("not supported") !=
        std::string::npos);
  const auto broken = error_of(kubeconfig("{server: 'https://a'}", "{client-key-data: 'top secret!'}"));
  CHECK(broken.find("is not base64") != std::string::npos);
  CHECK(broken.find("top secret") == std::string::npos);
  CHECK_FALSE(error_of("a: [").empty());
}

TEST_CASE("kubeconfig: several files, the first of equal names counts") {
  const Folder folder;
  const auto one = folder.write("one/config", "current-context: x\nusers:\n- {name: u, user: {tokenFile: t}}\n");
  const auto two = folder.write("two/config", kubeconfig("{server: 'https://b', certificate-authority: ca}"));
  const auto config = load_kubeconfig(one + ":" + folder.path() + "/absent:" + two);
  INFO((config ? "" : config.error().detail));
  REQUIRE(config.has_value());
  CHECK(config->token_file == folder.path() + "/one/t");
  CHECK(config->token.empty());
  CHECK(config->ca_file == folder.path() + "/two/ca");
  CHECK_FALSE(load_kubeconfig(folder.path() + "/absent").has_value());
}

TEST_CASE("The service account of a pod is used first, with IPv6 too") {
  const Folder folder;
  Environment environment;
  environment.home = folder.path();
  CHECK(find_config("", environment).error().detail.find("--resources PATH") != std::string::npos);
  folder.write(".kube/config", kubeconfig("{server: 'https://home'}"));
  CHECK(find_config("", environment)->host == "home");
  const auto given = folder.write("given", kubeconfig("{server: 'https://given'}"));
  CHECK(find_config(given, environment)->host == "given");

  environment.service_host = "fd00::1";
  environment.service_port = "6443";
  environment.service_account = folder.path() + "/sa";
  CHECK(find_config(given, environment)->host == "given");  // not a pod: there is no token
  folder.write("sa/token", "t");
  folder.write("sa/namespace", "ai-prod\n");
  const auto config = find_config(given, environment);
  REQUIRE(config.has_value());
  CHECK(config->origin == "in-cluster");
  CHECK(config->host == "fd00::1");
  CHECK(config->port == 6443);
  CHECK(config->ns == "ai-prod");
  CHECK(config->ca_file == folder.path() + "/sa/ca.crt");
}

}  // namespace warmroute::kube
