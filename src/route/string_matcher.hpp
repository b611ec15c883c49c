#pragma once
// One StringMatch of a route, ready to run: exact, else prefix, else regular expression (RE2, searched unanchored),
// else everything. Expressions are shared between tables, so that a new snapshot compiles only new ones.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "model/resources.hpp"

namespace re2 {
class RE2;
}

namespace warmroute::route {

/// The expressions that one table refers to, by pattern. An invalid pattern stays in the map as one that is not
/// ok(), so that it is logged once and not at every snapshot.
using RegexMap = std::map<std::string, std::shared_ptr<const re2::RE2>, std::less<>>;

/// Finds the pattern in `current`, else takes it over from `previous` (may be null), else compiles it and logs when
/// it is invalid. Never returns null.
std::shared_ptr<const re2::RE2> intern_regex(const std::string& pattern, RegexMap& current, const RegexMap* previous,
                                             const std::function<void(std::string_view)>& log_warning);

class StringMatcher {
 public:
  /// \param spec outlives the matcher. \param regex of spec.regex; needed only where neither exact nor prefix is set.
  StringMatcher(const model::StringMatch& spec, std::shared_ptr<const re2::RE2> regex);
  [[nodiscard]] bool matches(std::string_view text) const;
  [[nodiscard]] static bool needs_regex(const model::StringMatch& spec) noexcept {
    return !spec.exact && !spec.prefix && spec.regex.has_value();
  }

 private:
  const model::StringMatch* spec_;
  std::shared_ptr<const re2::RE2> regex_;
};

}  // namespace warmroute::route
