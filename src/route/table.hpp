#pragma once
// Step: from model, headers and path to a ModelServer (spec 4.2). Built once per snapshot on the control thread,
// with its regular expressions (RE2) compiled and shared with the table before. Lookup costs do not grow with the
// number of routes. Previous step: openai/inspect.cpp, next: schedule/pipeline.cpp.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"

namespace warmroute::route {

/// The request's headers as the matcher needs them.
class HeaderSource {
 public:
  virtual ~HeaderSource() = default;
  /// Value of the first header of that name (case-insensitive), "" when missing. `Host` always reads "".
  [[nodiscard]] virtual std::string_view first(std::string_view name) const = 0;
};

struct Query {
  std::string_view model;
  std::string_view path;  ///< decoded, without query
  const HeaderSource* headers = nullptr;
};

struct Match {
  enum class Kind : std::uint8_t {
    matched,
    not_found,       ///< no route: 404 "route not found"
    server_missing,  ///< 404 "can't find model server: ns/n" (detail holds ns/n)
    not_supported    ///< external provider, rateLimit: 503 (detail says what)
  };
  Kind kind = Kind::not_found;
  std::shared_ptr<const model::ModelRoute> route;
  std::shared_ptr<const model::ServerEntry> server;
  std::string_view route_key, server_key;  ///< namespace/name, live as long as the table
  bool lora = false;
  std::uint32_t rule_index = 0;  ///< of the rule that matched, as the route's object counts
  std::string detail;
};

/// The `model` the engine is asked for: the server's override, but an adapter keeps its own name. Lives as long as
/// the match and `requested`.
/// \param match of kind matched.
[[nodiscard]] inline std::string_view upstream_model(const Match& match, std::string_view requested) noexcept {
  const std::string_view own = match.server->spec.model;
  return match.lora || own.empty() ? requested : own;
}

class Table {
 public:
  /// \param previous table whose compiled expressions are reused; may be null.
  static std::shared_ptr<const Table> build(std::shared_ptr<const model::Snapshot> snapshot, const Table* previous,
                                            const std::function<void(std::string_view)>& log_warning);
  virtual ~Table() = default;

  /// Some ModelRoute declares this name as base model or adapter: it may be a metric label.
  [[nodiscard]] virtual bool declares(std::string_view model) const = 0;
  /// The declared name as a string that lives as long as the table; empty when not declared.
  [[nodiscard]] virtual std::string_view declared_name(std::string_view model) const = 0;
  /// \param random returns uniform 64 bits; for weighted targets.
  [[nodiscard]] virtual Match match(const Query& query, const std::function<std::uint64_t()>& random) const = 0;
  /// Names with a usable server, each once, sorted by bytes (decision 3.17).
  [[nodiscard]] virtual const std::vector<std::string>& listed_models() const = 0;
  [[nodiscard]] virtual const std::shared_ptr<const model::Snapshot>& snapshot() const = 0;
};

}  // namespace warmroute::route
