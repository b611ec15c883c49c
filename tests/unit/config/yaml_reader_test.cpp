#include "config/yaml_reader.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "config/yaml_scalar.hpp"

namespace {

using warmroute::Value;
using warmroute::config::Diagnostic;
using warmroute::config::Diagnostics;
using warmroute::config::has_errors;
using warmroute::config::resolve_plain_scalar;
using warmroute::config::YamlFile;
using warmroute::config::YamlLimits;
using warmroute::config::YamlNode;

/// A text with its diagnostics; the file's nodes point into them.
struct Parsed {
  explicit Parsed(const std::string& text, const YamlLimits& limits = {})
      : file(YamlFile::parse(text, "f.yaml", diagnostics, limits)) {}
  Parsed(const Parsed&) = delete;
  Parsed& operator=(const Parsed&) = delete;
  [[nodiscard]] YamlNode root() const { return file.documents().empty() ? YamlNode() : file.documents().front(); }
  [[nodiscard]] std::vector<std::string> texts() const {
    std::vector<std::string> out;
    for (const auto& diagnostic : diagnostics) out.push_back(diagnostic.text());
    return out;
  }
  Diagnostics diagnostics;
  YamlFile file;
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("plain scalars mean what Go says, but for leading zeros", "[yaml]") {
  const auto integer = [](std::string_view text) { return std::get<std::int64_t>(resolve_plain_scalar(text).value); };
  CHECK(integer("0") == 0);
  CHECK(integer("-7") == -7);
  CHECK(integer("+7") == 7);
  CHECK(integer("0x1F") == 31);
  CHECK(integer("-0x1f") == -31);
  CHECK(integer("0o17") == 15);
  CHECK(integer("0b101") == 5);
  CHECK(integer("1_000") == 1000);
  CHECK(integer("010") == 10);
  CHECK(integer("089") == 89);
  CHECK(resolve_plain_scalar("010").leading_zero);
  CHECK_FALSE(resolve_plain_scalar("0").leading_zero);
  CHECK_FALSE(resolve_plain_scalar("0.5").leading_zero);
  CHECK(integer("9223372036854775807") == std::numeric_limits<std::int64_t>::max());
  CHECK(integer("-9223372036854775808") == std::numeric_limits<std::int64_t>::min());
  CHECK(std::get<std::uint64_t>(resolve_plain_scalar("18446744073709551615").value) == 18446744073709551615ULL);

  const auto real = [](std::string_view text) { return std::get<double>(resolve_plain_scalar(text).value); };
  CHECK(real("1.5") == 1.5);
  CHECK(real("1.") == 1.0);
  CHECK(real(".5") == 0.5);
  CHECK(real("-.5") == -0.5);
  CHECK(real("1e2") == 100);
  CHECK(real("+1.5E-1") == 0.15);
  CHECK(real("99999999999999999999") == 99999999999999999999.0);
  CHECK(real("1e-999") == 0);
  CHECK(std::isinf(real(".inf")));
  CHECK(real("-.Inf") < 0);
  CHECK(std::isnan(real(".NaN")));

  for (const auto* text : {"", "~", "null", "Null", "NULL"}) {
    CHECK(std::holds_alternative<std::monostate>(resolve_plain_scalar(text).value));
  }
  CHECK(std::get<bool>(resolve_plain_scalar("TRUE").value));
  CHECK_FALSE(std::get<bool>(resolve_plain_scalar("false").value));
  for (const auto* text : {"yes",   "no",    "on",  "y",   "-",   "+",   ".",        "1e999", "0x",
                           "0xZ",   "1.2.3", "1e",  "e5",  "nan", "inf", "10.0.0.1", "1:30",  "2024-01-01T00:00:00Z",
                           "12abc", "_1",    "--1", "+-1", "0b2"}) {
    CAPTURE(text);
    CHECK(std::holds_alternative<std::string>(resolve_plain_scalar(text).value));
  }
}

TEST_CASE("nodes know their place and path", "[yaml]") {
  const Parsed parsed("spec:\n  rules:\n  - name: a\n    targetModels:\n    - weight: 5\n  a.b/c: 1\n");
  const YamlNode spec = parsed.root().get("spec");
  const YamlNode weight = spec.get("rules").items().at(0).get("targetModels").items().at(0).get("weight");
  CHECK(weight.path() == "spec.rules[0].targetModels[0].weight");
  CHECK(weight.line() == 5);
  CHECK(weight.column() == 15);
  CHECK(weight.file() == "f.yaml");
  CHECK(weight.integer() == 5);
  CHECK(spec.get("a.b/c").path() == "spec[\"a.b/c\"]");
  const YamlNode absent = spec.get("nothing").get("deeper");
  CHECK(absent.is_absent());
  CHECK(absent.path() == "spec.nothing.deeper");
  CHECK(absent.line() == 2);
  CHECK(parsed.diagnostics.empty());
}

TEST_CASE("absent and null are no errors, required says so", "[yaml]") {
  const Parsed parsed("a:\nb: ~\nc: {}\n");
  const YamlNode root = parsed.root();
  CHECK(root.get("a").is_null());
  CHECK_FALSE(root.get("a").text());
  CHECK_FALSE(root.get("x").integer());
  CHECK_FALSE(root.get("b").boolean());
  CHECK(root.get("a").items().empty());
  CHECK(root.get("x").entries().empty());
  CHECK(root.has("a"));
  CHECK_FALSE(root.has("x"));
  CHECK(parsed.diagnostics.empty());
  CHECK(root.required("c").is_map());
  CHECK(parsed.diagnostics.empty());
  (void)root.required("a");
  (void)root.get("c").required("name");
  CHECK(parsed.texts() == Texts{"f.yaml:1:1: a: is required", "f.yaml:3:4: c.name: is required"});
}

TEST_CASE("wrong types are told once, with what stands there", "[yaml]") {
  const Parsed parsed("a: text\nb: [1]\nc: {x: 1}\nd: 5\ne: true\nf: 1.5\n");
  const YamlNode root = parsed.root();
  (void)root.get("a").get("x");
  (void)root.get("a").get("y");
  (void)root.get("a").required("z");
  CHECK_FALSE(root.get("b").text());
  (void)root.get("c").items();
  CHECK_FALSE(root.get("d").strict_text());
  CHECK_FALSE(root.get("e").strict_text());
  CHECK_FALSE(root.get("f").integer());
  CHECK_FALSE(root.get("a").number());
  CHECK_FALSE(root.get("d").boolean());
  CHECK(root.get("d").text() == "5");
  CHECK(root.get("f").truncated_integer() == 1);
  CHECK(parsed.texts() ==
        Texts{"f.yaml:1:4: a: must be a mapping, got the string \"text\"",
              "f.yaml:2:4: b: must be a string, got a list", "f.yaml:3:4: c: must be a list, got a mapping",
              "f.yaml:4:4: d: must be a string, got the number 5", "f.yaml:5:4: e: must be a string, got true",
              "f.yaml:6:4: f: must be an integer, got the number 1.5",
              "f.yaml:1:4: a: must be a number, got the string \"text\"",
              "f.yaml:4:4: d: must be true or false, got the number 5"});
}

TEST_CASE("a described value cannot forge log lines and is cut at a character", "[yaml]") {
  const Parsed parsed("a: \"x\\ny\"\nb: " + std::string(47, 'a') + "\xC3\xA4" + "bbb\n");
  CHECK(parsed.root().get("a").describe() == "the string \"x?y\"");
  CHECK(parsed.root().get("b").describe() == "the string \"" + std::string(47, 'a') + "...\"");
}

TEST_CASE("integers have ranges", "[yaml]") {
  const Parsed parsed("[0, 65536, -1, 16.0, 99999999999999999999, 18446744073709551615, \"5\", 007]");
  const auto items = parsed.root().items();
  CHECK_FALSE(items[0].integer(1, 65535));
  CHECK_FALSE(items[1].integer(1, 65535));
  CHECK_FALSE(items[2].integer(0));
  CHECK_FALSE(items[1].integer(std::numeric_limits<std::int64_t>::min(), 10));
  CHECK(items[3].integer(1, 65535) == 16);
  CHECK_FALSE(items[4].integer());
  CHECK_FALSE(items[5].integer());
  CHECK_FALSE(items[6].integer());
  CHECK(items[7].integer() == 7);
  CHECK(parsed.texts() ==
        Texts{"f.yaml:1:2: [0]: must be between 1 and 65535, got 0",
              "f.yaml:1:5: [1]: must be between 1 and 65535, got 65536", "f.yaml:1:12: [2]: must be at least 0, got -1",
              "f.yaml:1:5: [1]: must be at most 10, got 65536",
              "f.yaml:1:22: [4]: must be an integer of 64 bits, got 99999999999999999999",
              "f.yaml:1:44: [5]: must be an integer of 64 bits, got 18446744073709551615",
              "f.yaml:1:66: [6]: must be an integer, got the string \"5\"", "f.yaml:1:71: [7]: 007 is read as 7"});
}

TEST_CASE("booleans accept YAML 1.1's words, unquoted", "[yaml]") {
  const Parsed parsed("[true, False, yes, OFF, 'true', 1]");
  const auto items = parsed.root().items();
  CHECK(items[0].boolean() == true);
  CHECK(items[1].boolean() == false);
  CHECK(items[2].boolean() == true);
  CHECK(items[3].boolean() == false);
  CHECK_FALSE(items[4].boolean());
  CHECK_FALSE(items[5].boolean());
  CHECK(parsed.diagnostics.size() == 2);
}

TEST_CASE("string maps and lists", "[yaml]") {
  const Parsed parsed("labels: {app: qwen, tier: '1', empty: , bad: 5}\nlist: [a, null, true]\n");
  CHECK(parsed.root().get("labels").string_map() ==
        std::vector<std::pair<std::string, std::string>>{{"app", "qwen"}, {"tier", "1"}, {"empty", ""}});
  CHECK(parsed.root().get("list").string_list() == std::vector<std::string>{"a", ""});
  CHECK(parsed.texts() == Texts{"f.yaml:1:46: labels.bad: must be a string, got the number 5",
                                "f.yaml:2:17: list[2]: must be a string, got true"});
}

TEST_CASE("keys that nobody read are warnings, each with the place of its key", "[yaml]") {
  const Parsed parsed("a: {b: 1, c: {d: 2}}\nlist:\n- {x: 1, y: 2}\nignored: {z: 1}\nseen: {q: 1}\n");
  const YamlNode root = parsed.root();
  CHECK(root.get("a").get("b").integer() == 1);
  CHECK(root.get("list").items().at(0).get("x").integer() == 1);
  root.get("ignored").ignore();
  (void)root.get("seen").entries();
  parsed.file.report_unread();
  CHECK(parsed.texts() == Texts{"f.yaml:1:11: a.c: unknown field", "f.yaml:3:10: list[0].y: unknown field"});
  CHECK_FALSE(has_errors(parsed.diagnostics));
}

TEST_CASE("a duplicate key is an error of its mapping, the first value stands", "[yaml]") {
  SECTION("when the mapping is read, once") {
    const Parsed parsed("a: 1\nb: 2\na: 3\n");
    CHECK(parsed.root().get("a").integer() == 1);
    (void)parsed.root().get("b");
    parsed.file.report_unread();
    CHECK(parsed.texts() == Texts{"f.yaml:3:1: a: key is already there in line 1"});
    CHECK(has_errors(parsed.diagnostics));
  }
  SECTION("also where nobody looked") {
    const Parsed parsed("a: {x: 1, x: 2}\n");
    (void)parsed.root().get("a");
    parsed.file.report_unread();
    CHECK(parsed.texts().front() == "f.yaml:1:11: a.x: key is already there in line 1");
  }
  SECTION("not below a value") {
    const Parsed parsed("a: {x: 1, x: 2}\n");
    const Value value = parsed.root().get("a").to_value();
    const auto& map = std::get<Value::Map>(value.data);
    REQUIRE(map.size() == 2);
    CHECK(std::get<std::int64_t>(map[0].second.data) == 1);
    CHECK(std::get<std::int64_t>(map[1].second.data) == 2);
    parsed.file.report_unread();
    CHECK(parsed.diagnostics.empty());
  }
}

TEST_CASE("merge keys: own keys win, earlier mappings win, reading marks the source", "[yaml]") {
  const Parsed parsed(
      "one: &one {a: 1, b: 1}\ntwo: &two {b: 2, c: 2, unread: 0}\nm:\n  a: own\n  <<: [*one, *two]\nn: {<<: *one}\n"
      "quoted: {\"<<\": 1}\n");
  const YamlNode m = parsed.root().get("m");
  CHECK(m.to_json() == R"({"a":"own","b":1,"c":2,"unread":0})");
  CHECK(m.get("a").text() == "own");
  CHECK(m.get("b").integer() == 1);
  CHECK(m.get("b").path() == "m.b");
  CHECK(m.get("c").integer() == 2);
  CHECK(parsed.root().get("n").get("a").integer() == 1);
  CHECK(parsed.root().get("quoted").get("<<").integer() == 1);
  parsed.file.report_unread();
  CHECK(parsed.texts() == Texts{"f.yaml:2:24: two.unread: unknown field", "f.yaml:2:24: m.unread: unknown field"});
  CHECK(Parsed("a: {<<: 5}").texts() == Texts{"f.yaml:1:5: a merge key (<<) needs a mapping or a list of mappings"});
}

TEST_CASE("values and JSON keep the types", "[yaml]") {
  const Parsed parsed(
      "{s: \"5\", i: 0x10, d: 1.5, whole: 100.0, t: true, n: null, l: [1, \"a\\\"b\\n\\x01\\\\\"], big: "
      "18446744073709551615, inf: .inf, tagged: !!str 5, num: !!int \"7\", custom: !mine x}");
  CHECK(
      parsed.root().to_json() ==
      "{\"s\":\"5\",\"i\":16,\"d\":1.5,\"whole\":100,\"t\":true,\"n\":null,\"l\":[1,\"a\\\"b\\n\\u0001\\\\\"],\"big\":"
      "18446744073709551615,\"inf\":null,\"tagged\":\"5\",\"num\":7,\"custom\":\"x\"}");
  const Value value = parsed.root().to_value();
  const auto& map = std::get<Value::Map>(value.data);
  CHECK(std::get<std::string>(map[0].second.data) == "5");
  CHECK(std::get<std::int64_t>(map[1].second.data) == 16);
  CHECK(std::get<double>(map[2].second.data) == 1.5);
  CHECK(std::get<bool>(map[4].second.data));
  CHECK(map[5].second.is_null());
  CHECK(std::get<Value::List>(map[6].second.data).size() == 2);
  CHECK(std::get<double>(map[7].second.data) == 18446744073709551615.0);
  CHECK(parsed.diagnostics.empty());
  CHECK(YamlNode().to_json() == "null");
  CHECK(Parsed("{a: 1, b: 2, a: 3}").root().to_json() == R"({"b":2,"a":3})");
}

TEST_CASE("documents", "[yaml]") {
  CHECK(Parsed("").file.documents().empty());
  CHECK(Parsed("# nothing\n").file.documents().empty());
  const Parsed parsed("---\na: 1\n---\n---\nb\n...\n");
  REQUIRE(parsed.file.documents().size() == 3);
  CHECK(parsed.file.documents()[0].line() == 2);
  CHECK(parsed.file.documents()[1].is_null());
  CHECK(parsed.file.documents()[2].text() == "b");
  const Parsed bom("\xEF\xBB\xBFkey: 1\n");
  CHECK(bom.root().get("key").integer() == 1);
  CHECK(Parsed("a: 1\r\nb: 2\r\n").root().get("b").integer() == 2);
}

TEST_CASE("syntax errors have a place; documents before them are kept", "[yaml]") {
  const Parsed parsed("a: 1\n---\nb: c: d\n");
  CHECK_FALSE(parsed.file.valid());
  CHECK(parsed.file.documents().size() == 1);
  REQUIRE(parsed.diagnostics.size() == 1);
  CHECK(parsed.diagnostics[0].line == 3);
  CHECK(parsed.diagnostics[0].column > 0);
  for (const auto* text : {"a: *gone", "&a [*a]", "&a {b: *a}", "? [x]\n: y", "{[x]: y}", "a: \"open", "{", "[1, 2",
                           "\ta: 1", "a: 'x", "a: \"\\ud800\"", "a: \"\xff\"", "a: \"\xc0\x80\"", "a: \xed\xa0\x80",
                           "a: \x01", "%YAML 3.0\n---\n&x &y z", "@x", "a: `x`"}) {
    CAPTURE(text);
    const Parsed bad(text);
    CHECK_FALSE(bad.file.valid());
    CHECK(has_errors(bad.diagnostics));
  }
}

TEST_CASE("a wrong place where the parser stands still is an error, not a million documents", "[yaml]") {
  for (const char* text : {",{\"a/v1\",\"b:\"c\"}}", "\"a\",\"b\":{\"c{\"d"}) {
    const Parsed parsed(text);
    CHECK(has_errors(parsed.diagnostics));
    CHECK(parsed.file.documents().size() <= std::string_view(text).size());
  }
}

TEST_CASE("limits", "[yaml]") {
  const auto refused = [](const std::string& text, const std::string& why, const YamlLimits& limits = {}) {
    const Parsed parsed(text, limits);
    CHECK_FALSE(parsed.file.valid());
    REQUIRE_FALSE(parsed.diagnostics.empty());
    CHECK(parsed.diagnostics[0].message.find(why) != std::string::npos);
  };
  YamlLimits limits;
  limits.text_bytes = 10;
  refused("a: 12345678", "larger than 10 bytes", limits);
  limits = {};
  limits.nodes = 4;
  refused("[1, 2, 3, 4]", "too many values", limits);
  limits = {};
  limits.depth = 3;
  CHECK(Parsed("{a: [1]}", limits).file.valid());
  refused("{a: [[1]]}", "nested too deep", limits);
  // aliases nest, too, though the text is flat
  std::string chain = "a0: &a0 [x]\n";
  for (int i = 1; i < 200; ++i) {
    chain += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  refused(chain, "nested too deep");
  std::string merges = "m0: &m0 {a: 1, b: 2, c: 3}\n";
  for (int i = 1; i < 40; ++i) merges += "m" + std::to_string(i) + ": {<<: [*m0, *m0, *m0, *m0]}\n";
  limits = {};
  limits.nodes = 400;
  refused(merges, "too many values", limits);
}

TEST_CASE("a bomb of aliases costs a message, not memory", "[yaml]") {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n";
  char previous = 'a';
  for (char name = 'b'; name <= 'm'; ++name) {
    bomb += std::string(1, name) + ": &" + name + " [";
    for (int i = 0; i < 10; ++i) bomb += std::string(i == 0 ? "*" : ",*") + previous;
    bomb += "]\n";
    previous = name;
  }
  YamlLimits limits;
  limits.expanded = 5000;
  const Parsed parsed(bomb, limits);
  REQUIRE(parsed.file.valid());
  CHECK(parsed.root().get("m").to_value().is_null());
  CHECK(parsed.root().get("m").to_json() == "null");
  CHECK(parsed.texts() == Texts{"f.yaml:13:4: m: too many values once aliases are expanded",
                                "f.yaml:13:4: m: too many values once aliases are expanded"});
  parsed.file.report_unread();  // linear
}

TEST_CASE("only the first document, when asked", "[yaml]") {
  YamlLimits limits;
  limits.first_document_only = true;
  const Parsed broken("a: 1\n---\nb: c: d\n", limits);
  CHECK(broken.file.valid());
  CHECK(broken.file.documents().size() == 1);
  CHECK_FALSE(has_errors(broken.diagnostics));
  CHECK(broken.diagnostics.size() == 1);
}
