#pragma once
// --check: configuration and resources are read and judged, nothing is started.

#include "app/options.hpp"

namespace warmroute::app {

/// Prints what is wrong with file, line and column. \return the exit code: 0 when nothing is wrong, else 1. Warnings
/// (unknown fields, misspelled arguments, features that are not supported) count as wrong here.
[[nodiscard]] int check(const Options& options);

}  // namespace warmroute::app
