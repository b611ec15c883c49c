#pragma once
// What a configuration reader found, with its place.

#include <string>
#include <vector>

namespace warmroute::config {

struct Diagnostic {
  enum class Severity { warning, error } severity = Severity::error;
  std::string file;
  int line = 0, column = 0;  ///< from 1; 0: unknown
  std::string path;          ///< e.g. spec.rules[0].targetModels[1].weight; may be empty
  std::string message;
  /// "FILE:LINE:COLUMN: PATH: MESSAGE", parts that are unknown left out.
  [[nodiscard]] std::string text() const;
};
using Diagnostics = std::vector<Diagnostic>;
[[nodiscard]] bool has_errors(const Diagnostics& diagnostics) noexcept;

}  // namespace warmroute::config
