#pragma once
// The documents of one YAML text as trees of our own, for yaml_reader only. Aliases are shared nodes, so a bomb of
// them costs nothing until somebody expands it; the height is bounded, so recursion over a tree is safe.

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/yaml_reader.hpp"

namespace warmroute::config::detail {

struct YamlRaw {
  struct Entry {
    std::string key;
    int line = 0, column = 0;
    YamlRaw* value = nullptr;
    std::size_t read_flag = 0;  ///< index into YamlContext::read; shared by an entry and its merged copies
    bool merge = false;         ///< an unquoted `<<`; gone once its mapping is complete
  };
  struct Duplicate {
    std::string key;
    int line = 0, column = 0, first_line = 0;
  };

  YamlNode::Kind kind = YamlNode::Kind::null;
  bool plain = false;           ///< an unquoted scalar: resolve it
  std::string text;             ///< of a scalar
  std::vector<YamlRaw*> items;  ///< of a list
  std::vector<Entry> entries;   ///< of a mapping, equal keys included, merged keys last
  std::vector<Duplicate> duplicates;
  int line = 0, column = 0;
  int height = 1;
  bool complete = false;
  bool aliased = false;
  // set while reading
  bool consumed = false;  ///< to_value() or ignore()
  bool duplicates_reported = false;
  bool wrong_kind_reported = false;
  bool walked = false;
};

struct YamlContext {
  std::string file;
  YamlLimits limits;
  Diagnostics* diagnostics = nullptr;
  std::deque<YamlRaw> nodes;  ///< stable addresses, flat destruction
  std::vector<bool> read;
  /// Read flags of entries that a merge lost to another, and of the winner: read when the winner is.
  std::vector<std::pair<std::size_t, std::size_t>> shadowed;
  std::size_t node_count = 0;
  std::size_t expanded = 0;

  void report(Diagnostic::Severity severity, int line, int column, std::string path, std::string message) const {
    diagnostics->push_back(Diagnostic{severity, file, line, column, std::move(path), std::move(message)});
  }
};

/// Parses into `context`. \return the roots of the documents; `valid` is false when an error was reported.
[[nodiscard]] std::vector<YamlRaw*> build_yaml_tree(std::string_view text, YamlContext& context, bool& valid);

}  // namespace warmroute::config::detail
