#include "config/resource_docs.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <utility>

#include "config/resource_readers.hpp"
#include "config/yaml_reader.hpp"

namespace warmroute::config {
namespace {

using detail::read_meta;

constexpr std::string_view networking = "networking.serving.volcano.sh/v1alpha1";
constexpr std::string_view own_group = "warmroute.dev/v1alpha1";

/// Kinds whose feature comes later.
constexpr std::array<std::string_view, 6> later_kinds{"ExternalModelProvider", "Gateway", "GatewayClass", "HTTPRoute",
                                                      "InferencePool",         "Secret"};

class DocumentReader {
 public:
  DocumentReader(std::uint64_t position, ResourceDocuments& out) : position_(position), out_(out) {}

  void read(const YamlNode& document) {
    if (document.is_null()) return;
    const auto kind = document.required("kind").strict_text();
    if (!kind) return document.ignore();
    if (*kind == "List") return read_list(document);
    if (*kind == "ModelRoute") {
      if (!begin(document, *kind, networking)) return;
      add(out_.routes, detail::read_model_route(document.required("spec"), next_meta(document, *kind)));
    } else if (*kind == "ModelServer") {
      if (!begin(document, *kind, networking)) return;
      add(out_.servers, detail::read_model_server(document.required("spec"), next_meta(document, *kind)));
    } else if (*kind == "Pod") {
      if (!begin(document, *kind, "v1")) return;
      model::ObjectMeta meta = next_meta(document, *kind);
      add(out_.pods, detail::read_pod(document, std::move(meta)));
    } else if (*kind == "StaticPods") {
      if (!begin(document, *kind, own_group)) return;
      add(out_.static_pods, detail::read_static_pods(document.required("spec"), next_meta(document, *kind)));
    } else if (std::find(later_kinds.begin(), later_kinds.end(), *kind) != later_kinds.end()) {
      document.get("kind").warning(*kind + " is not supported by this build; the document is ignored");
      document.ignore();
      ++position_;
    } else {
      document.get("kind").warning("unknown kind " + *kind + "; the document is ignored");
      document.ignore();
      ++position_;
    }
    if (*kind != "Pod") document.get("status").ignore();
  }

 private:
  void read_list(const YamlNode& document) {
    document.get("apiVersion").ignore();
    document.get("metadata").ignore();
    for (const YamlNode& item : document.required("items").items()) read(item);
  }

  /// False: the document is of another version, which is an error and ends its reading.
  static bool begin(const YamlNode& document, const std::string& kind, std::string_view version) {
    const YamlNode node = document.required("apiVersion");
    const auto given = node.strict_text();
    if (given == version) return true;
    if (given) node.error("must be " + std::string(version) + " for a " + kind + ", but is " + node.describe());
    document.ignore();
    return false;
  }

  model::ObjectMeta next_meta(const YamlNode& document, const std::string& kind) {
    model::ObjectMeta meta = read_meta(document);
    meta.position = position_++;
    if (!meta.name.empty() && !seen_.emplace(kind + " " + meta.key()).second) {
      document.get("metadata")
          .get("name")
          .warning(kind + " " + meta.key() + " is defined more than once; the last definition is used");
    }
    return meta;
  }

  template <class T>
  static void add(std::vector<T>& list, T object) {
    list.push_back(std::move(object));
  }

  std::uint64_t position_;
  ResourceDocuments& out_;
  std::set<std::string> seen_;
};

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

void parse_resource_documents(std::string_view text, const std::string& file_name, std::uint64_t position_base,
                              ResourceDocuments& out, Diagnostics& diagnostics) {
  Diagnostics found;
  ResourceDocuments documents;
  bool valid = false;
  {
    const YamlFile file = YamlFile::parse(text, file_name, found);
    DocumentReader reader(position_base, documents);
    for (const YamlNode& document : file.documents()) reader.read(document);
    file.report_unread();
    valid = file.valid();
  }
  if (valid && !has_errors(found)) {
    append(out.routes, documents.routes);
    append(out.servers, documents.servers);
    append(out.pods, documents.pods);
    append(out.static_pods, documents.static_pods);
  }
  append(diagnostics, found);
}

}  // namespace warmroute::config
