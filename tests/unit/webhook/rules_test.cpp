#include "webhook/rules.hpp"

#include <catch2/catch.hpp>

#include "webhook/base_url.hpp"
#include "webhook/label_rules.hpp"

using namespace warmroute;
using namespace warmroute::webhook;

namespace {

using Lines = std::vector<std::string>;
using Check = void (*)(const JsonReader&, FieldErrors&);

Lines check(Check rules, const std::string& spec) {
  simdjson::dom::parser parser;
  const std::string text = R"({"spec":)" + spec + "}";
  simdjson::dom::element object;
  REQUIRE(parser.parse(text).get(object) == simdjson::SUCCESS);
  std::string problem;
  FieldErrors errors;
  rules(JsonReader(object, problem), errors);
  CHECK(problem == "");
  return errors.lines();
}
Lines route(const std::string& spec) { return check(check_model_route, spec); }
Lines server(const std::string& spec) { return check(check_model_server, spec); }
Lines provider(const std::string& spec) { return check(check_external_model_provider, spec); }
std::string rules_of(const std::string& rule) { return R"({"modelName":"m","rules":[)" + rule + "]}"; }

constexpr const char* label_value_rule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
constexpr const char* label_name_rule =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

}  // namespace

TEST_CASE("ModelRoute: what may be", "[webhook]") {
  CHECK(route(rules_of(R"({"targetModels":[{"modelServerName":"a"}]})")).empty());
  CHECK(route(rules_of(R"({"targetModels":[{"modelServerName":"a"},{"modelServerName":"b","weight":0}]})")).empty());
  CHECK(route(rules_of(R"({"targetModels":[{"externalModelProviderName":"e"}],"modelMatch":null})")).empty());
  CHECK(route(R"({"loraAdapters":["l"],"rules":[{"targetModels":[{"modelServerName":"a"}]}]})").empty());
  CHECK(route(R"({"modelName":"m","rules":[]})").empty());
  CHECK(route(R"({"modelName":"m"})").empty());
  CHECK(route(rules_of(R"({"targetModels":[{"modelServerName":"a"}],
      "modelMatch":{"headers":{"h":null,"i":{"regex":"^a+$"}},"uri":{"exact":"/"}}})"))
            .empty());
}

TEST_CASE("ModelRoute: every rule has its path and text", "[webhook]") {
  CHECK(route("{}") == Lines{"spec: Required value: either modelName or loraAdapters must be specified"});
  CHECK(route(R"({"loraAdapters":["a","",null]})") ==
        Lines{"spec.loraAdapters[1]: Invalid value: \"\": lora adapter name cannot be an empty string",
              "spec.loraAdapters[2]: Invalid value: \"\": lora adapter name cannot be an empty string"});
  CHECK(route(rules_of("null")) == Lines{"spec.rules[0]: Invalid value: null: rule must not be nil"});
  CHECK(route(rules_of(R"({"targetModels":[]},{})")) ==
        Lines{"spec.rules[0].targetModels: Required value: each rule must have at least one target model",
              "spec.rules[1].targetModels: Required value: each rule must have at least one target model"});
  CHECK(route(rules_of(R"({"targetModels":[null,{"modelServerName":"a"}]})")) ==
        Lines{"spec.rules[0].targetModels[0]: Invalid value: null: target model must not be nil"});
  CHECK(route(rules_of(R"({"targetModels":[{},{"modelServerName":"s","externalModelProviderName":"e"}]})")) ==
        Lines{"spec.rules[0].targetModels[0]: Invalid value: \"/\": exactly one of modelServerName or "
              "externalModelProviderName must be set",
              "spec.rules[0].targetModels[1]: Invalid value: \"s/e\": exactly one of modelServerName or "
              "externalModelProviderName must be set"});
  CHECK(route(R"({"loraAdapters":["l"],"rules":[{"targetModels":[{"externalModelProviderName":"e"}]}]})") ==
        Lines{"spec.rules[0].targetModels[0].externalModelProviderName: Invalid value: \"e\": lora routes must target "
              "modelServerName"});
  CHECK(
      route(rules_of(R"({"targetModels":[{"modelServerName":"a","weight":0},{"modelServerName":"b","weight":0}]})")) ==
      Lines{"spec.rules[0].targetModels: Invalid value: 0: total weight must be greater than zero"});
  CHECK(route(rules_of(R"({"targetModels":[null]})")) ==
        Lines{"spec.rules[0].targetModels[0]: Invalid value: null: target model must not be nil",
              "spec.rules[0].targetModels: Invalid value: 0: total weight must be greater than zero"});
}

TEST_CASE("ModelRoute: expressions that do not compile, in the words of Go", "[webhook]") {
  const auto uri = [](const std::string& pattern) {
    const auto lines = route(
        rules_of(R"({"targetModels":[{"modelServerName":"a"}],"modelMatch":{"uri":{"regex":")" + pattern + R"("}}})"));
    return lines.empty() ? "" : lines.front();
  };
  const std::string at = "spec.rules[0].modelMatch.uri.regex: Invalid value: ";
  CHECK(uri("[") == at + "\"[\": error parsing regexp: missing closing ]: `[`");
  CHECK(uri("(") == at + "\"(\": error parsing regexp: missing closing ): `(`");
  CHECK(uri("a)") == at + "\"a)\": error parsing regexp: unexpected ): `a)`");
  CHECK(uri("*") == at + "\"*\": error parsing regexp: missing argument to repetition operator: `*`");
  CHECK(uri("a**") == at + "\"a**\": error parsing regexp: invalid nested repetition operator: `**`");
  CHECK(uri("a{1001}") == at + "\"a{1001}\": error parsing regexp: invalid repeat count: `{1001}`");
  CHECK(uri("[b-a]") == at + "\"[b-a]\": error parsing regexp: invalid character class range: `b-a`");
  CHECK(uri("(?=a)") == at + "\"(?=a)\": error parsing regexp: invalid or unsupported Perl syntax: `(?=`");
  CHECK(uri(R"(\\)") == at + R"("\\": error parsing regexp: trailing backslash at end of expression: ``)");
  CHECK(uri(R"(\\8)") == at + R"("\\8": error parsing regexp: invalid escape sequence: `\8`)");
  CHECK(uri("(?P<x") == at + "\"(?P<x\": error parsing regexp: invalid named capture: `(?P<x`");
  CHECK(uri("^/v1/.*$") == "");
  CHECK(
      route(rules_of(R"({"targetModels":[{"modelServerName":"a"}],
      "modelMatch":{"headers":{"z":{"regex":"("},"a b":{"regex":"["}}}})")) ==
      Lines{"spec.rules[0].modelMatch.headers[a b].regex: Invalid value: \"[\": error parsing regexp: missing closing "
            "]: `[`",
            "spec.rules[0].modelMatch.headers[z].regex: Invalid value: \"(\": error parsing regexp: missing closing "
            "): `(`"});
}

TEST_CASE("ModelServer: every rule has its path and text", "[webhook]") {
  const std::string at = "spec.workloadSelector";
  CHECK(server(R"({"workloadSelector":{"matchLabels":{"a":"b"}}})").empty());
  CHECK(server("{}") == Lines{at + ": Required value: workloadSelector must be specified"});
  CHECK(server(R"({"workloadSelector":{}})") ==
        Lines{at + ".matchLabels: Required value: labels must contain at least one label"});
  CHECK(server(R"({"workloadSelector":{"matchLabels":{"k<":"a"}}})") ==
        Lines{at + R"(.matchLabels: Invalid value: {"k\u003c":"a"}: invalid selector: key: Invalid value: "k<": )" +
              label_name_rule});
  CHECK(server(R"({"workloadSelector":{"matchLabels":{"a":"b"},"pdGroup":{}}})") ==
        Lines{at + ".pdGroup.groupKey: Required value: groupKey must be specified",
              at + ".pdGroup.prefillLabels: Required value: labels must contain at least one label",
              at + ".pdGroup.decodeLabels: Required value: labels must contain at least one label"});
  CHECK(server(R"({"workloadSelector":{"matchLabels":{"a":"b"},"pdGroup":{"groupKey":"g",
      "prefillLabels":{"r":"-p"},"decodeLabels":{"r":"d"}}}})") ==
        Lines{at + R"(.pdGroup.prefillLabels: Invalid value: {"r":"-p"}: invalid selector: values[0][r]: )" +
              R"(Invalid value: "-p": )" + label_value_rule});
}

TEST_CASE("Labels are judged as the API machinery does", "[webhook]") {
  const std::string longest(63, 'x'), longer(64, 'x');
  for (const auto& [key, value] : model::Labels{{"a", "b"}, {"k", ""}, {"ex.com/n", "v"}, {longest, longest}})
    CHECK(!selector_problem({{key, value}}));
  CHECK(selector_problem({{"a", "-b"}}) == "values[0][a]: Invalid value: \"-b\": " + std::string(label_value_rule));
  CHECK(selector_problem({{"a", "v."}}) == "values[0][a]: Invalid value: \"v.\": " + std::string(label_value_rule));
  CHECK(selector_problem({{"k", "é"}}) == "values[0][k]: Invalid value: \"é\": " + std::string(label_value_rule));
  CHECK(selector_problem({{"k", longer}}) ==
        "values[0][k]: Invalid value: \"" + longer + "\": must be no more than 63 characters");
  CHECK(selector_problem({{longer, ""}}) ==
        "key: Invalid value: \"" + longer + "\": name part must be no more than 63 characters");
  CHECK(selector_problem({{"a b", "-b"}}) == "[key: Invalid value: \"a b\": " + std::string(label_name_rule) +
                                                 ", values[0][a b]: Invalid value: \"-b\": " + label_value_rule + "]");
  CHECK(selector_problem({{"/x", "y"}}) == "key: Invalid value: \"/x\": prefix part must be non-empty");
  CHECK(selector_problem({{"ex.com/", "y"}}) ==
        "key: Invalid value: \"ex.com/\": name part must be non-empty; " + std::string(label_name_rule));
  CHECK(selector_problem({{"A/x", "y"}}) ==
        "key: Invalid value: \"A/x\": prefix part a lowercase RFC 1123 subdomain must consist of lower case "
        "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
        "'example.com', regex used for validation is "
        "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')");
  CHECK(selector_problem({{"a/b/c", "d"}}) ==
        "key: Invalid value: \"a/b/c\": a qualified name" + std::string(label_name_rule).substr(9) +
            " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')");
}

TEST_CASE("ExternalModelProvider: every rule has its path and text", "[webhook]") {
  CHECK(provider(R"({"baseURL":"https://h/v1","headers":{"X-Team":"a"},"providerType":"Anthropic",
      "auth":{"scheme":"APIKey","secretRef":{"name":"n","key":"k","optional":false}}})")
            .empty());
  CHECK(provider(R"({"baseURL":"https://h","providerType":"Foo","auth":{"scheme":"Basic","secretRef":{}}})") ==
        Lines{R"(spec.providerType: Unsupported value: "Foo": supported values: "OpenAI", "Anthropic")",
              R"(spec.auth.scheme: Unsupported value: "Basic": supported values: "Bearer", "APIKey")",
              "spec.auth.secretRef.name: Required value: secret name is required",
              "spec.auth.secretRef.key: Required value: secret key is required"});
  CHECK(provider("{}") == Lines{R"(spec.baseURL: Invalid value: "": baseURL must use https)"});
  CHECK(provider(R"({"baseURL":"https://u@h"})") ==
        Lines{R"(spec.baseURL: Invalid value: "https://u@h": baseURL must not contain userinfo, query, or fragment)"});
  CHECK(provider(R"({"baseURL":"https://h","headers":{"a b":"x","COOKIE":"y","c":"1\n2"}})") ==
        Lines{R"(spec.headers[COOKIE]: Invalid value: "COOKIE": header is reserved and cannot be configured as a )"
              "static header",
              R"(spec.headers[a b]: Invalid value: "a b": header name is invalid)",
              R"(spec.headers[c]: Invalid value: "1\n2": header value must not contain CR or LF)"});
  CHECK(provider(R"({"baseURL":"https://h","auth":{"secretRef":{"name":"n","key":"k","optional":true}}})") ==
        Lines{"spec.auth.secretRef.optional: Invalid value: true: optional must be false or unset"});
}

TEST_CASE("baseURL is judged as Go's parser does", "[webhook]") {
  // Verdicts of net/url (go1.26).
  for (const char* good : {"https://h", "HTTPS://h", "https://h:80", "https://:443", "https://h?", "https://h#",
                           "https://h/a b", "https://[::1]:80/x", "https://a%c3%a9", "https://h:", "https://h\"x",
                           "https://[fe80::1%25eth0]/", "https://h]x", "https://é"}) {
    CAPTURE(good);
    CHECK(judge_base_url(good) == BaseUrl::good);
  }
  for (const char* bad :
       {"http://h", "https:h", "https:///p", "https://h:8x", "https://u@", "https://h/%zz", "https://h h",
        "https://[::1", "https://h\x01", "https://h/#%zz", "", "https://a%41", "https://u p@h", "//h", "://h",
        "https://a\\b", "https://[::1]a", "https://a{b}", "1https://h"}) {
    CAPTURE(bad);
    CHECK(judge_base_url(bad) == BaseUrl::not_https);
  }
  for (const char* extras :
       {"https://u@h", "https://h?a", "https://h?a?", "https://h#f", "https://u:p@h/x?q#f", "https://h??"}) {
    CAPTURE(extras);
    CHECK(judge_base_url(extras) == BaseUrl::has_extras);
  }
}

TEST_CASE("Strings are quoted as Go quotes them", "[webhook]") {
  CHECK(go_quoted("a\"\n\u00e9\u2028\u00ad\U0001F600\x7f\x01\\") == R"("a\"\né\u2028\u00ad😀\x7f\x01\\")");
}
