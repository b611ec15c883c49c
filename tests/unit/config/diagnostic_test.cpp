#include "config/diagnostic.hpp"

#include <catch2/catch.hpp>

using warmroute::config::Diagnostic;
using warmroute::config::has_errors;

TEST_CASE("a diagnostic leaves out what is unknown", "[diagnostic]") {
  using enum Diagnostic::Severity;
  CHECK(Diagnostic{error, "f.yaml", 3, 7, "spec.x", "is wrong"}.text() == "f.yaml:3:7: spec.x: is wrong");
  CHECK(Diagnostic{error, "f.yaml", 3, 0, "", "is wrong"}.text() == "f.yaml:3: is wrong");
  CHECK(Diagnostic{error, "f.yaml", 0, 0, "", "is wrong"}.text() == "f.yaml: is wrong");
  CHECK(Diagnostic{error, "", 0, 0, "a", "is wrong"}.text() == "a: is wrong");
  CHECK(Diagnostic{error, "", 0, 0, "", "is wrong"}.text() == "is wrong");
}

TEST_CASE("warnings are no errors", "[diagnostic]") {
  using enum Diagnostic::Severity;
  CHECK_FALSE(has_errors({}));
  CHECK_FALSE(has_errors({{warning, "", 0, 0, "", "x"}}));
  CHECK(has_errors({{warning, "", 0, 0, "", "x"}, {error, "", 0, 0, "", "y"}}));
}
