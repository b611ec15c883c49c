#include "route/string_matcher.hpp"

#include <re2/re2.h>

#include <utility>

namespace warmroute::route {
namespace {

/// Program and state cache of one expression; beyond it matching falls back to a slower engine of fixed size.
constexpr std::int64_t regex_memory_bytes = std::int64_t{8} << 20U;

re2::StringPiece piece(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

std::shared_ptr<const re2::RE2> intern_regex(const std::string& pattern, RegexMap& current, const RegexMap* previous,
                                             const std::function<void(std::string_view)>& log_warning) {
  if (const auto it = current.find(pattern); it != current.end()) return it->second;
  std::shared_ptr<const re2::RE2> regex;
  if (previous != nullptr)
    if (const auto it = previous->find(pattern); it != previous->end()) regex = it->second;
  if (!regex) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(regex_memory_bytes);
    regex = std::make_shared<const re2::RE2>(pattern, options);
    if (!regex->ok() && log_warning)
      log_warning("invalid regular expression \"" + pattern + "\" never matches: " + regex->error());
  }
  current.emplace(pattern, regex);
  return regex;
}

StringMatcher::StringMatcher(const model::StringMatch& spec, std::shared_ptr<const re2::RE2> regex)
    : spec_(&spec), regex_(std::move(regex)) {}

bool StringMatcher::matches(std::string_view text) const {
  if (spec_->exact) return text == *spec_->exact;
  if (spec_->prefix) return text.starts_with(*spec_->prefix);
  if (spec_->regex) return regex_ && regex_->ok() && re2::RE2::PartialMatch(piece(text), *regex_);
  return true;
}

}  // namespace warmroute::route
