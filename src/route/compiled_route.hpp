#pragma once
// A ModelRoute prepared for matching: its rules with compiled matchers and its targets resolved to servers.
// Refers into the ModelRoute, whose snapshot outlives it. Immutable once built.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/snapshot.hpp"
#include "route/string_matcher.hpp"
#include "route/table.hpp"

namespace warmroute::route {

struct CompiledTarget {
  std::string key;                                   ///< namespace/name of the ModelServer
  std::shared_ptr<const model::ServerEntry> server;  ///< null: no such ModelServer
  std::string_view provider;                         ///< external provider, empty: none
  std::uint64_t weight_end = 0;  ///< drawn numbers below it (and not below the previous one's) choose this target
  bool has_one_backend = false;
};

class CompiledRule {
 public:
  using Intern = std::function<std::shared_ptr<const re2::RE2>(const std::string& pattern)>;
  CompiledRule(std::uint32_t index, const model::Rule& rule, const std::string& ns, const model::Snapshot& snapshot,
               const Intern& intern);

  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] bool matches(const Query& query) const;
  /// Weighted random. Null when the rule has no right target (spec 4.2: the next route is tried then).
  [[nodiscard]] const CompiledTarget* draw(const std::function<std::uint64_t()>& random) const;
  [[nodiscard]] const std::vector<CompiledTarget>& targets() const noexcept { return targets_; }

 private:
  struct Header {
    std::string_view name;
    StringMatcher value;
    bool is_host = false;
  };
  void add_match(const model::ModelMatch& match, const Intern& intern);
  void add_targets(const model::Rule& rule, const std::string& ns, const model::Snapshot& snapshot);

  std::uint32_t index_;
  bool never_ = false;  ///< a header rule without a match
  std::vector<Header> headers_;
  std::optional<StringMatcher> uri_;
  std::optional<std::string_view> body_model_;
  std::vector<CompiledTarget> targets_;
  std::uint64_t total_weight_ = 0;  ///< 0: draw() has nothing to give
};

struct CompiledRoute {
  CompiledRoute(std::shared_ptr<const model::ModelRoute> spec, const model::Snapshot& snapshot,
                const CompiledRule::Intern& intern);

  std::shared_ptr<const model::ModelRoute> route;
  std::string key;                  ///< namespace/name
  std::vector<CompiledRule> rules;  ///< null rules of the object are left out, they never match
};

}  // namespace warmroute::route
