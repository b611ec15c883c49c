#pragma once
// Where the API server is and who we are: from a pod's service account, or from kubeconfig files. Blocking reads of
// small local files; at start and --check.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "warmroute/result.hpp"

namespace warmroute::kube {

/// users[].user.exec: a program that prints an ExecCredential.
struct ExecPlugin {
  std::string api_version;  ///< client.authentication.k8s.io/v1 or v1beta1
  std::string command;      ///< with a slash: a path, made absolute; else looked up in PATH
  std::vector<std::string> args;
  std::vector<std::pair<std::string, std::string>> env;  ///< added to ours
  bool provide_cluster_info = false;
  std::string install_hint;
};

struct Config {
  std::string origin;  ///< for the log: "in-cluster", or file and context
  std::string server;  ///< the URL as given
  bool tls = true;
  std::string host;  ///< name or address, without brackets
  std::uint16_t port = 443;
  std::string path_prefix;      ///< of the server URL, without a slash at its end
  std::string tls_server_name;  ///< empty: host
  bool insecure = false;        ///< no verification of the server
  std::string ns = "default";   ///< the pod's own, or the context's

  // Who we are. Files are read again while running: they rotate.
  std::string ca_pem, ca_file;
  std::string token, token_file;
  std::string basic;  ///< "user:password"; empty: none
  std::string certificate_pem, certificate_file, key_pem, key_file;
  std::optional<ExecPlugin> exec;
};

/// What stands in for the process's environment in tests.
struct Environment {
  std::string service_host, service_port;  ///< KUBERNETES_SERVICE_HOST and _PORT
  std::string service_account = "/var/run/secrets/kubernetes.io/serviceaccount";
  std::string home;  ///< HOME, for ~/.kube/config
  [[nodiscard]] static Environment of_process();
};

/// The pod's service account, else the kubeconfig files, else ~/.kube/config.
/// \param kubeconfig one path, or several with colons between them (KUBECONFIG); may be empty.
/// Errors: the sentence to die with.
[[nodiscard]] Result<Config> find_config(const std::string& kubeconfig, const Environment& environment);

/// Several files are merged as client-go does: of equal names the first counts, files that do not exist are skipped
/// unless they are alone. The current context is used.
[[nodiscard]] Result<Config> load_kubeconfig(const std::string& paths);

/// The text of one kubeconfig file. \param name for messages; its folder is what relative paths start from.
[[nodiscard]] Result<Config> parse_kubeconfig(const std::string& text, const std::string& name);

/// Fills tls, host, port and path_prefix from `url`.
[[nodiscard]] Result<void> set_server(Config& config, const std::string& url);

}  // namespace warmroute::kube
