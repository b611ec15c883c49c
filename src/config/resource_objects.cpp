#include "config/resource_objects.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "config/resource_readers.hpp"
#include "config/yaml_reader.hpp"

namespace warmroute::config {
namespace {

/// \param read turns the document and its metadata into the object.
template <class T, class Read>
std::optional<T> object_of(std::string_view json, const char* kind, Diagnostics& diagnostics, Read read) {
  Diagnostics found;
  std::optional<T> object;
  std::string name = kind;
  {
    const YamlFile file = YamlFile::parse_json(json, kind, found);
    if (file.valid()) {
      const YamlNode& document = file.documents().front();
      model::ObjectMeta meta = detail::read_meta(document);
      meta.resource_version.clear();
      name += " " + meta.key();
      object = read(document, std::move(meta));
    }
  }
  for (Diagnostic& diagnostic : found) diagnostic.file = name;
  if (has_errors(found)) object.reset();
  diagnostics.insert(diagnostics.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  return object;
}

bool says_ready(const YamlNode& status) {
  const auto conditions = status.get("conditions").items();
  return status.get("phase").text() == "Running" &&
         std::any_of(conditions.begin(), conditions.end(), [](const YamlNode& condition) {
           return condition.get("type").text() == "Ready" && condition.get("status").text() == "True";
         });
}

}  // namespace

std::optional<model::ModelRoute> model_route_of(std::string_view json, Diagnostics& diagnostics) {
  return object_of<model::ModelRoute>(json, "ModelRoute", diagnostics, [](const YamlNode& document, auto meta) {
    return detail::read_model_route(document.required("spec"), std::move(meta));
  });
}

std::optional<model::ModelServer> model_server_of(std::string_view json, Diagnostics& diagnostics) {
  return object_of<model::ModelServer>(json, "ModelServer", diagnostics, [](const YamlNode& document, auto meta) {
    return detail::read_model_server(document.required("spec"), std::move(meta));
  });
}

std::optional<model::Pod> pod_of(std::string_view json, Diagnostics& diagnostics) {
  return object_of<model::Pod>(json, "Pod", diagnostics, [](const YamlNode& document, auto meta) {
    model::Pod pod = detail::read_pod(document, std::move(meta));
    // A document may leave it out; of a pod in a cluster somebody must have said that it is ready.
    pod.ready = pod.ready && says_ready(document.get("status"));
    return pod;
  });
}

}  // namespace warmroute::config
