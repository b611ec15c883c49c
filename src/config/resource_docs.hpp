#pragma once
// YAML documents -> model objects: ModelServer, ModelRoute, Pod, StaticPods; defaults applied and validated as the
// CRDs do (spec kthena-controlplane 2).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostic.hpp"
#include "model/resources.hpp"

namespace warmroute::config {

/// A StaticPods document before its host names are resolved.
struct StaticPods {
  struct Endpoint {
    std::string host;        ///< name or textual address, without brackets
    std::uint16_t port = 0;  ///< 0: the ModelServer's workloadPort
    bool is_address = false;
  };
  model::ObjectMeta meta;
  model::Labels labels;
  std::vector<Endpoint> endpoints;
};

struct ResourceDocuments {
  std::vector<model::ModelRoute> routes;
  std::vector<model::ModelServer> servers;
  std::vector<model::Pod> pods;
  std::vector<StaticPods> static_pods;
};

/// Appends the documents of one file to `out`. Diagnostics carry the places; a file with an error contributes
/// nothing to `out`.
/// \param position_base order of the file among the others; becomes ObjectMeta::position together with the index.
void parse_resource_documents(std::string_view text, const std::string& file_name, std::uint64_t position_base,
                              ResourceDocuments& out, Diagnostics& diagnostics);

}  // namespace warmroute::config
