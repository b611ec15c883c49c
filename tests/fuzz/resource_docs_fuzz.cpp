// Arbitrary text as a resource file: no crash, and a file with an error contributes nothing.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/resource_docs.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace warmroute::config;
  ResourceDocuments documents;
  Diagnostics diagnostics;
  parse_resource_documents({reinterpret_cast<const char*>(data), size}, "fuzz.yaml", 0, documents, diagnostics);
  if (has_errors(diagnostics) && (!documents.routes.empty() || !documents.servers.empty() || !documents.pods.empty() ||
                                  !documents.static_pods.empty())) {
    std::abort();
  }
  for (const auto& server : documents.servers) {
    if (server.port == 0 || server.selector.empty() || server.spec_json.empty()) std::abort();
  }
  return 0;
}
