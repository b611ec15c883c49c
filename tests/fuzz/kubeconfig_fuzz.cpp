// A kubeconfig file, and what a credential plugin prints.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "kube/config.hpp"
#include "kube/exec_plugin.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warmroute::kube;  // NOLINT(google-build-using-namespace)
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto config = parse_kubeconfig(text, "/k/config")) {
    if (config->host.empty() && !config->server.empty()) std::abort();
    if (config->port == 0) std::abort();
    if (config->exec) (void)exec_info(*config, text);
  }
  const auto credential = parse_exec_credential(text, "client.authentication.k8s.io/v1");
  if (credential && credential->token.empty() && credential->certificate_pem.empty()) std::abort();
  return 0;
}
