#pragma once
// The only door to yaml-cpp. Text -> documents whose nodes know their place; typed access that reports what is wrong
// with file, line, column and path; keys that nobody read become warnings. Nothing here throws.
//
//   Diagnostics diagnostics;
//   const YamlFile file = YamlFile::parse(text, "routes.yaml", diagnostics);
//   for (const YamlNode& document : file.documents()) {
//     const YamlNode spec = document.required("spec");
//     const auto port = spec.get("workloadPort").get("port").integer(1, 65535);  // nullopt: absent, null or reported
//     for (const YamlNode& rule : spec.get("rules").items()) ...
//   }
//   file.report_unread();  // warnings for unknown fields, errors for duplicate keys in mappings nobody opened
//
// Scalars are resolved as Go's YAML does (0x1F, 0o17, 0b1, 1_000, .inf; true/false, null, ~), but for a leading zero:
// `010` is ten, as YAML 1.2 says, with a warning. Quoted scalars are always strings.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/diagnostic.hpp"
#include "warmroute/plugin_registry.hpp"

namespace warmroute::config {

namespace detail {
struct YamlRaw;
struct YamlContext;
}  // namespace detail

struct YamlLimits {
  std::size_t text_bytes = 16U << 20U;
  std::size_t nodes = 1U << 20U;     ///< per file, merged keys counted
  std::size_t expanded = 1U << 20U;  ///< values made by all to_value() and to_json() calls, aliases expanded
  int depth = 64;
  bool first_document_only = false;  ///< later documents are not read; a warning says so
};

/// A place in a document: a value, or one that is absent. A cheap handle; valid while the Diagnostics given to
/// YamlFile::parse live. Not thread-safe.
class YamlNode {
 public:
  enum class Kind : std::uint8_t { absent, null, scalar, list, map };

  YamlNode() = default;  ///< absent, reports nothing

  [[nodiscard]] Kind kind() const noexcept;
  /// Present and not null.
  explicit operator bool() const noexcept { return kind() != Kind::absent && kind() != Kind::null; }
  [[nodiscard]] bool is_absent() const noexcept { return kind() == Kind::absent; }
  [[nodiscard]] bool is_null() const noexcept { return kind() == Kind::null; }
  [[nodiscard]] bool is_scalar() const noexcept { return kind() == Kind::scalar; }
  [[nodiscard]] bool is_list() const noexcept { return kind() == Kind::list; }
  [[nodiscard]] bool is_map() const noexcept { return kind() == Kind::map; }
  /// From 1. An absent node has the place of the mapping that lacks it.
  [[nodiscard]] int line() const noexcept { return line_; }
  [[nodiscard]] int column() const noexcept { return column_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] const std::string& file() const noexcept;

  // Mappings. On an absent or null node they answer nothing; on another kind they report an error once per node.
  /// Marks the key as read.
  [[nodiscard]] YamlNode get(std::string_view key) const;
  /// As get(); absent or null is an error `is required`.
  [[nodiscard]] YamlNode required(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;
  /// All keys in file order, merged ones last; all are marked as read.
  [[nodiscard]] std::vector<std::pair<std::string, YamlNode>> entries() const;
  /// As entries(), each value through strict_text(): labels and the like. Wrong ones are reported and left out.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> string_map() const;

  // Lists. As with mappings.
  [[nodiscard]] std::vector<YamlNode> items() const;
  [[nodiscard]] std::vector<std::string> string_list() const;  ///< through strict_text()

  // Scalars. nullopt: absent, null, or another type, which is reported as an error.
  /// A string; `name: 5` and `name: true` are errors, as the Kubernetes API server says.
  [[nodiscard]] std::optional<std::string> strict_text() const;
  /// Any scalar as written (Go's YAML into a string field).
  [[nodiscard]] std::optional<std::string> text() const;
  /// Integers, also 16.0 and 1e2; out of range is an error that names the range.
  [[nodiscard]] std::optional<std::int64_t> integer(std::int64_t min = std::numeric_limits<std::int64_t>::min(),
                                                    std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  /// As integer(), but a fraction is cut off: Go's YAML into an int field.
  [[nodiscard]] std::optional<std::int64_t> truncated_integer() const;
  /// Any number, .inf and .nan included.
  [[nodiscard]] std::optional<double> number() const;
  /// true and false; also YAML 1.1's yes, no, on, off, y, n when unquoted.
  [[nodiscard]] std::optional<bool> boolean() const;

  /// The subtree as a plugin value; marks all of it as read. Equal keys are all kept, in file order (the reader of
  /// the value decides). A key that is there twice is no error below this node. Budget used up: reported, null.
  [[nodiscard]] Value to_value() const;
  /// The subtree as compact JSON: numbers and booleans as such, .inf and .nan as null, equal keys: the last.
  /// Does not mark anything as read. An absent node is `null`. Budget used up: reported, `null`.
  [[nodiscard]] std::string to_json() const;

  /// Marks the subtree as read: fields that are known and not used.
  void ignore() const;
  void error(std::string message) const;
  void warning(std::string message) const;
  /// What stands here, for messages: `a list`, `the string "x"`, `null`; long texts are cut.
  [[nodiscard]] std::string describe() const;

 private:
  friend class YamlFile;
  YamlNode(std::shared_ptr<detail::YamlContext> context, detail::YamlRaw* raw, std::string path, int line, int column)
      : context_(std::move(context)), raw_(raw), path_(std::move(path)), line_(line), column_(column) {}
  [[nodiscard]] bool expect(Kind kind, const char* what) const;
  [[nodiscard]] YamlNode child(detail::YamlRaw* raw, std::string path) const;
  void report(Diagnostic::Severity severity, std::string message) const;
  void wrong_type(const char* wanted) const;

  std::shared_ptr<detail::YamlContext> context_;
  detail::YamlRaw* raw_ = nullptr;
  std::string path_;
  int line_ = 0, column_ = 0;
};

class YamlFile {
 public:
  /// Syntax errors, unknown anchors, an anchor inside itself, keys that are not scalars, invalid UTF-8 and exceeded
  /// limits are reported as errors; the documents before the error are kept.
  /// \param diagnostics receives everything found now and by the nodes later; must outlive the file and its nodes.
  [[nodiscard]] static YamlFile parse(std::string_view text, std::string file_name, Diagnostics& diagnostics,
                                      const YamlLimits& limits = {});
  /// One JSON text as a document, so that the same readers serve the API server's objects. Places are paths only;
  /// `managedFields` are left out. What is no JSON, or too deep or large, is reported as an error.
  [[nodiscard]] static YamlFile parse_json(std::string_view json, std::string name, Diagnostics& diagnostics,
                                           const YamlLimits& limits = {});
  /// Empty documents (nothing or a comment between two `---`) are null nodes; a text without content has none.
  [[nodiscard]] const std::vector<YamlNode>& documents() const noexcept { return documents_; }
  /// False when parse() met an error.
  [[nodiscard]] bool valid() const noexcept { return valid_; }
  /// Warnings `unknown field` for keys that were never asked for (nothing is said about what is below them), errors
  /// for duplicate keys not told yet. Once, after reading.
  void report_unread() const;

 private:
  std::shared_ptr<detail::YamlContext> context_;
  std::vector<YamlNode> documents_;
  bool valid_ = false;
};

}  // namespace warmroute::config
