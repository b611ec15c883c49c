#pragma once
// Why an expression does not compile, for people who wrote it.

#include <string>

namespace warmroute::route {

/// Empty when routes may use the expression; else the words of Go's regexp package, which users of kthena know:
/// "error parsing regexp: missing closing ]: `[a`".
[[nodiscard]] std::string regex_problem(const std::string& pattern);

}  // namespace warmroute::route
