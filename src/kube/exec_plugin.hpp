#pragma once
// Runs a credential plugin and reads the ExecCredential it prints. The child is waited for on the loop, never blocking;
// it sees none of our descriptors, and it is killed with its process group when the time is up.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "kube/config.hpp"
#include "net/task.hpp"
#include "warmroute/result.hpp"

namespace warmroute::kube {

struct ExecCredential {
  std::string token;
  std::string certificate_pem, key_pem;
  std::optional<std::int64_t> expires;  ///< unix seconds; nullopt: until the API server refuses it
};

/// `json` is what the plugin printed; `api_version` what it was asked for.
[[nodiscard]] Result<ExecCredential> parse_exec_credential(const std::string& json, const std::string& api_version);

/// KUBERNETES_EXEC_INFO for the plugin. \param ca_pem of the cluster, for provideClusterInfo
[[nodiscard]] std::string exec_info(const Config& config, const std::string& ca_pem);

/// Errors: it cannot be started, failed, took too long, or printed something else. `config.exec` must be set.
net::Task<Result<ExecCredential>> run_exec_plugin(net::io_context& io, Config config, std::string ca_pem,
                                                  std::chrono::milliseconds timeout);

}  // namespace warmroute::kube
