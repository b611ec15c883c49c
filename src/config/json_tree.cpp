// JSON -> the tree behind YamlNode. A file of its own, because it is the one user of simdjson here.

#include <simdjson.h>

#include <charconv>
#include <string>
#include <utility>

#include "config/yaml_reader.hpp"
#include "config/yaml_tree.hpp"

namespace warmroute::config {
namespace {

using detail::YamlContext;
using detail::YamlRaw;
using Kind = YamlNode::Kind;
namespace dom = simdjson::dom;

/// Builds what is below one element. Its recursion ends at the depth limit.
class JsonTree {
 public:
  explicit JsonTree(YamlContext& context) : context_(context) {}

  /// Null when a limit was met.
  YamlRaw* build(const dom::element& element, int depth) {
    if (depth > context_.limits.depth) return fail("nested too deep");
    if (++context_.node_count > context_.limits.nodes) return fail("too many values in one object");
    YamlRaw& node = context_.nodes.emplace_back();
    node.complete = true;
    node.plain = true;
    if (!fill(node, element, depth)) return nullptr;
    return &node;
  }
  [[nodiscard]] const std::string& problem() const noexcept { return problem_; }

 private:
  YamlRaw* fail(const char* why) {
    problem_ = why;
    return nullptr;
  }

  bool fill(YamlRaw& node, const dom::element& element, int depth) {
    switch (element.type()) {
      case dom::element_type::ARRAY:
        node.kind = Kind::list;
        for (const dom::element item : dom::array(element)) {
          YamlRaw* const child = build(item, depth + 1);
          if (child == nullptr) return false;
          node.items.push_back(child);
        }
        return true;
      case dom::element_type::OBJECT:
        node.kind = Kind::map;
        return fill_map(node, dom::object(element), depth);
      case dom::element_type::STRING:
        node.kind = Kind::scalar;
        node.plain = false;
        node.text = std::string_view(element);
        return true;
      case dom::element_type::NULL_VALUE:
        node.kind = Kind::null;
        return true;
      case dom::element_type::BOOL:
        node.kind = Kind::scalar;
        node.text = bool(element) ? "true" : "false";
        return true;
      default:
        node.kind = Kind::scalar;
        node.text = simdjson::minify(element);
        return true;
    }
  }

  bool fill_map(YamlRaw& node, const dom::object& object, int depth) {
    for (const dom::key_value_pair& field : object) {
      if (field.key == "managedFields") continue;  // half of an object, and nobody's configuration
      YamlRaw::Entry entry;
      entry.key = field.key;
      entry.value = build(field.value, depth + 1);
      if (entry.value == nullptr) return false;
      entry.read_flag = context_.read.size();
      context_.read.push_back(false);
      node.entries.push_back(std::move(entry));
    }
    return true;
  }

  YamlContext& context_;
  std::string problem_;
};

}  // namespace

YamlFile YamlFile::parse_json(std::string_view json, std::string name, Diagnostics& diagnostics,
                              const YamlLimits& limits) {
  YamlFile file;
  file.context_ = std::make_shared<YamlContext>();
  file.context_->file = std::move(name);
  file.context_->limits = limits;
  file.context_->diagnostics = &diagnostics;
  const auto refuse = [&](std::string why) {
    file.context_->report(Diagnostic::Severity::error, 0, 0, {}, std::move(why));
    return file;
  };
  if (json.size() > limits.text_bytes) return refuse("is too large");
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(json.data(), json.size()).get(root); error != simdjson::SUCCESS)
    return refuse(std::string("is no JSON: ") + simdjson::error_message(error));
  JsonTree tree(*file.context_);
  YamlRaw* const top = tree.build(root, 1);
  if (top == nullptr) return refuse(tree.problem());
  file.documents_.push_back(YamlNode(file.context_, top, {}, 0, 0));
  file.valid_ = true;
  return file;
}

}  // namespace warmroute::config
