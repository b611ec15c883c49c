#include "warmroute/plugin_registry.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <limits>
#include <stdexcept>

#include "support/fake_host.hpp"
#include "support/yaml_value.hpp"

namespace warmroute::test {
namespace {

struct Named final : Plugin {
  [[nodiscard]] std::string_view name() const noexcept override { return "named"; }
};
Result<std::shared_ptr<Plugin>> make_named(const Args&, Host&) {
  return std::shared_ptr<Plugin>(std::make_shared<Named>());
}

TEST_CASE("argument names ignore case and the last of equal names counts") {
  const Args args = to_args("{Limit: 3, LIMIT: 4}");
  CHECK(**args.integer("limit") == 4);
  CHECK_FALSE((*args.integer("limits")).has_value());
}

TEST_CASE("integers are whole numbers that fit") {
  CHECK(**to_args("a: 16.0").integer("a") == 16);
  CHECK(**to_args("a: 4e0").integer("a") == 4);
  CHECK(**to_args("a: -7").integer("a") == -7);
  CHECK(**Args(Value{Value::Map{{"a", {-0x1p63}}}}).integer("a") == std::numeric_limits<std::int64_t>::min());
  CHECK_FALSE((*to_args("a: null").integer("a")).has_value());
  for (const auto* bad : {"a: 1.5", "a: '5'", "a: true", "a: [1]", "a: {b: 1}", "a: .nan", "a: .inf", "a: 1e300"}) {
    INFO(bad);
    CHECK(to_args(bad).integer("a").has_error());
  }
  CHECK(Args(Value{Value::Map{{"a", {0x1p63}}}}).integer("a").has_error());
}

TEST_CASE("numbers, booleans and texts refuse other types and say where") {
  CHECK(**to_args("a: 2").number("a") == 2.0);
  CHECK(**to_args("a: 0.25").number("a") == 0.25);
  CHECK(**to_args("a: false").boolean("a") == false);
  CHECK(**to_args("a: b").text("a") == "b");
  CHECK(to_args("a: b").number("a").has_error());
  CHECK(to_args("a: 1").boolean("a").has_error());
  const Args args(to_value(YAML::Load("a: 1")), "file.yaml:4");
  CHECK(args.text("a").error().detail == "file.yaml:4: argument a must be a string, got an integer");
}

TEST_CASE("only a mapping or nothing is a readable block") {
  CHECK(Args().readable());
  CHECK(to_args("{}").readable());
  CHECK_FALSE(to_args("5").readable());
  CHECK_FALSE(to_args("[1]").readable());
  CHECK_FALSE((*to_args("5").integer("a")).has_value());
}

TEST_CASE("misspelled arguments are named in a warning") {
  FakeHost host;
  const std::array<std::string_view, 2> known{"blockSizeToHash", "topKMatches"};
  warn_unknown_args("p", Args(to_value(YAML::Load("{BLOCKSIZETOHASH: 1, blocks: 2}")), "f:2"), known, host);
  REQUIRE(host.warnings.size() == 1);
  CHECK(host.warnings[0] == "f:2: p: unknown argument \"blocks\" is ignored; known: blockSizeToHash, topKMatches");
}

TEST_CASE("the registry refuses a name twice and lists the known names") {
  Registry registry;
  registry.add("b", &make_named);
  registry.add("a", &make_named);
  CHECK_THROWS_AS(registry.add("a", &make_named), std::logic_error);
  FakeHost host;
  CHECK(registry.make("a", Args(), host).has_value());
  const auto missing = registry.make("c", Args(), host);
  REQUIRE(missing.has_error());
  CHECK(missing.error().code == Errc::unknown_plugin);
  CHECK(missing.error().detail == "unknown plugin \"c\"; known plugins: a, b");
}

}  // namespace
}  // namespace warmroute::test
