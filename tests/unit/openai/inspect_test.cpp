#include "openai/inspect.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "unit/openai/inspect_fixture.hpp"

namespace warmroute::openai::test {
namespace {

using model::PathLabel;

std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out.append(text);
  return out;
}

TEST_CASE("inspect finds every top-level model, the last one counts") {
  auto got = run_inspect(R"({"model":"first","x":{"model":"inner"},"mod\u0065l" : "se\u0063ond" ,"prompt":"p"})");
  REQUIRE(got.ok);
  CHECK(got.out.model == "second");
  REQUIRE(got.out.model_values.size() == 2);
  CHECK(got.out.model_values[0].of(got.body) == "\"first\"");
  CHECK(got.out.model_values[1].of(got.body) == "\"se\\u0063ond\"");
  CHECK(sent(got, "new") == R"({"model":"new","x":{"model":"inner"},"mod\u0065l" : "new" ,"prompt":"p"})");
}

TEST_CASE("inspect keeps the model untrimmed and refuses one that is missing, null, blank or no string") {
  CHECK(run_inspect(R"({"model":" m ","prompt":"p"})").out.model == " m ");
  CHECK(run_inspect("{\"model\":\"\u200b\"}").ok);
  const std::vector<std::pair<std::string, std::string>> cases{
      {R"({})", "model not found: model is missing"},
      {R"({"model":null})", "model not found: model is null at byte 9"},
      {R"({"model": 7})", "model not found: model is not a string at byte 10"},
      {R"({"model":["m"]})", "model not found: model is not a string at byte 9"},
      {R"({"model":""})", "model not found: model is blank at byte 9"},
      {"{\"model\":\" \\t\\u00a0\u2003\"}", "model not found: model is blank at byte 9"},
      {R"({"model":"m","model":null})", "model not found: model is null at byte 21"},
      {R"({"Model":"m"})", "model not found: model is missing"},
      {R"(null)", "model not found: the body is null"}};
  for (const auto& [body, message] : cases) {
    INFO(body);
    const auto got = run_inspect(body);
    REQUIRE_FALSE(got.ok);
    CHECK(got.refusal.kind == ErrorKind::model_missing);
    CHECK(got.refusal.message == message);
    const auto compat = run_inspect(body, {.compat = true});
    REQUIRE_FALSE(compat.ok);
    CHECK(compat.refusal.message == "model not found");
  }
}

TEST_CASE("inspect says what is wrong with the JSON and where") {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "invalid JSON: the body is empty at byte 0"},
      {" \n", "invalid JSON: the body is blank at byte 0"},
      {"[]", "invalid JSON: the body is not a JSON object at byte 0"},
      {"  7", "invalid JSON: the body is not a JSON object at byte 2"},
      {"}", "invalid JSON: the body is not a JSON object at byte 0"},
      {"\xEF\xBB\xBF{\"model\":\"m\"}", "invalid JSON: the body begins with a byte order mark at byte 0"},
      {"{", "invalid JSON: the body ends too early at byte 1"},
      {R"({"model":"m")", "invalid JSON: the body ends too early at byte 12"},
      {R"({"model":"m)", "invalid JSON: the body ends inside a string at byte 11"},
      {R"({"model":"m",})", "invalid JSON: expected a member name in double quotes at byte 13"},
      {R"({"model":"m" "a":1})", "invalid JSON: expected ',' or '}' at byte 13"},
      {R"({"model" "m"})", "invalid JSON: expected ':' behind the member name at byte 9"},
      {R"({model:"m"})", "invalid JSON: expected a member name in double quotes at byte 1"},
      {R"({"model":"m","x":})", "invalid JSON: expected a value at byte 17"},
      {R"({"model":"m","x":[1 2]})", "invalid JSON: expected ',' or ']' at byte 20"},
      {R"({"model":"m","x":{"a":[}]})", "invalid JSON: expected a value at byte 23"},
      {R"({"model":"m","x":{"a" "b"}})", "invalid JSON: expected ':' behind the member name at byte 22"},
      {R"({"model":"m","x":[1})", "invalid JSON: expected ',' or ']' at byte 19"},
      {R"({"model":"m","x":[1,]})", "invalid JSON: expected a value at byte 20"},
      {R"({"model":"m","x":[[],{},[{}],{"a":[]}})", "invalid JSON: expected ',' or ']' at byte 37"},
      {R"({"model":"m\q"})", "invalid JSON: malformed escape in a string at byte 11"},
      {R"({"model":"m","stream":tru})", "invalid JSON: malformed value at byte 22"},
      {R"({"model":"m","prompt":"ab\u12x4"})", "invalid JSON: malformed escape in a string at byte 25"},
      {R"({"model":"m","prompt":nil})", "invalid JSON: malformed value at byte 22"},
      {"{\"model\":\"m\",\"prompt\":\"a\nb\"}", "invalid JSON: control character in a string at byte 24"},
      {"{\"model\":\"m\",\"prompt\":\"a\\\"\tb\"}", "invalid JSON: control character in a string at byte 26"},
      {"{\"model\":\"m\",\"x\":\"ab\xC3(\"}", "invalid JSON: invalid UTF-8 at byte 20"}};
  for (const auto& [body, message] : cases) {
    INFO(body);
    const auto got = run_inspect(body);
    REQUIRE_FALSE(got.ok);
    CHECK(got.refusal.kind == ErrorKind::bad_json);
    CHECK(got.refusal.message == message);
  }
}

TEST_CASE("inspect refuses data behind the object") {
  for (const std::string tail : {"{}", " {\"a\":1}", "null", "}", " x", ",", "\"s\""}) {
    INFO(tail);
    const std::string body = R"({"model":"m"})" + tail;
    const auto got = run_inspect(body);
    REQUIRE_FALSE(got.ok);
    CHECK(got.refusal.kind == ErrorKind::trailing_data);
    CHECK(got.refusal.message.starts_with("invalid request body: more data behind the JSON object at byte 1"));
    CHECK(run_inspect(body, {.compat = true}).refusal.message == "invalid request body");
  }
  CHECK(run_inspect(" \r\n\t{\"model\":\"m\"} \n\t\r").ok);
}

TEST_CASE("inspect leaves to the engine what it does not read") {
  for (const std::string value : {"01", "+1", ".5", "1.", "NaN", "tru", "1e999", "\"\\q\"", "\"\\ud800\"", "nul"}) {
    INFO(value);
    const auto got = run_inspect(R"({"model":"m","prompt":"p","x":)" + value + "}");
    REQUIRE(got.ok);
    CHECK(got.out.prompt == "p");
  }
}

TEST_CASE("inspect is indifferent to depth") {
  const std::size_t depth = 100'000;
  for (const auto& [open, close] : {std::pair{"[", "]"}, std::pair{"{\"a\":", "}"}}) {
    const std::string value = repeat(open, depth) + "1" + repeat(close, depth);
    CHECK(run_inspect(R"({"model":"m","prompt":"p","x":)" + value + "}").out.prompt == "p");
    CHECK(run_inspect(R"({"model":"m","prompt":)" + value + "}").ok);
    CHECK(run_inspect(R"({"model":"m","messages":[{"role":"user","content":)" + value + "}]}").ok);
    CHECK_FALSE(run_inspect(R"({"model":"m","x":)" + value).ok);
    CHECK_FALSE(run_inspect(R"({"model":"m","x":)" + repeat(open, depth)).ok);
  }
  for (std::size_t levels = 60; levels < 70; ++levels) {  // around a word of the bit stack
    const std::string value = repeat("[{\"a\":", levels) + "[]" + repeat("}]", levels);
    CHECK(run_inspect(R"({"model":"m","x":)" + value + "}").ok);
    CHECK_FALSE(run_inspect(R"({"model":"m","x":)" + repeat("[{\"a\":", levels) + "[]" + repeat("}", levels) + "}").ok);
  }
}

TEST_CASE("inspect never says what the client wrote") {
  for (const std::string body :
       {R"({"model":"m","prompt":"SECRET\q"})", R"({"model":"m" SECRET})", R"({"model":"m","SECRET" SECRET})",
        R"({"model":["SECRET"]})", "SECRET", R"({"model":"m"} SECRET)"}) {
    const auto got = run_inspect(body);
    REQUIRE_FALSE(got.ok);
    CHECK(got.refusal.message.find("SECRET") == std::string::npos);
  }
}

TEST_CASE("inspect asks for usage with the smallest edit") {
  struct Case {
    std::string members, wanted;
  };
  const std::vector<Case> cases{
      {R"("stream":true)", R"("stream":true,"stream_options":{"include_usage":true})"},
      {R"("stream" : true , "n":1)", R"("stream" : true,"stream_options":{"include_usage":true} , "n":1)"},
      {R"("stream":true,"stream_options":"x")", R"("stream":true,"stream_options":{"include_usage":true})"},
      {R"("stream_options":[1, 2] ,"stream":true)", R"("stream_options":{"include_usage":true} ,"stream":true)"},
      {R"("stream":true,"stream_options": null)", R"("stream":true,"stream_options": {"include_usage":true})"},
      {R"("stream_options":{},"stream":true)", R"("stream_options":{"include_usage":true},"stream":true)"},
      {R"("stream":true,"stream_options":{ "a":[1]})",
       R"("stream":true,"stream_options":{"include_usage":true, "a":[1]})"},
      {R"("stream":true,"stream_options":{"a":1,"include_usage":false ,"b":2})",
       R"("stream":true,"stream_options":{"a":1,"include_usage":true ,"b":2})"},
      {R"("stream":true,"stream_options":{"include_usage":"true"})",
       R"("stream":true,"stream_options":{"include_usage":true})"},
      {R"("stream":true,"stream_options":{"include_usage":{"x":{}}})",
       R"("stream":true,"stream_options":{"include_usage":true})"},
      {R"("stream":true,"stream_options":{"include\u005fusage":null})",
       R"("stream":true,"stream_options":{"include\u005fusage":true})"},
      {R"("stream":false,"stream":true)", R"("stream":false,"stream":true,"stream_options":{"include_usage":true})"}};
  for (const PathLabel path : {PathLabel::chat_completions, PathLabel::completions}) {
    for (const auto& [members, wanted] : cases) {
      INFO(members);
      auto got = run_inspect(R"({"model":"m",)" + members + R"(,"prompt":"p"})", on(path));
      REQUIRE(got.ok);
      CHECK(got.out.stream);
      CHECK(got.out.ask_usage.size() == 1);
      CHECK(sent(got) == R"({"model":"m",)" + wanted + R"(,"prompt":"p"})");
      CHECK(sent(got, "other") == R"({"model":"other",)" + wanted + R"(,"prompt":"p"})");
    }
  }
}

TEST_CASE("inspect does not ask for usage where it must not or need not") {
  for (const std::string members :
       {R"("stream":true,"stream_options":{"include_usage":true})", R"("stream":false)", R"("stream":null)",
        R"("stream":"true")", R"("stream":1)", R"("stream":true,"stream":false)", R"("n":1)",
        R"("stream":true,"stream_options":{"include_usage":false,"include_usage":true})"}) {
    INFO(members);
    auto got = run_inspect(R"({"model":"m",)" + std::string(members) + "}", on(PathLabel::chat_completions));
    REQUIRE(got.ok);
    CHECK(got.out.ask_usage.empty());
  }
  for (const PathLabel path : {PathLabel::responses, PathLabel::messages, PathLabel::embeddings, PathLabel::other}) {
    const auto got = run_inspect(R"({"model":"m","stream":true,"prompt":"p"})", on(path));
    CHECK(got.out.stream);
    CHECK(got.out.ask_usage.empty());
  }
}

TEST_CASE("inspect reports the raw tools where engines template them") {
  const std::string body = R"({"model":"m","tools" : [ {"type":"function"} ] ,"prompt":"p"})";
  for (const PathLabel path : {PathLabel::chat_completions, PathLabel::responses, PathLabel::messages}) {
    const auto got = run_inspect(body, on(path));
    CHECK(got.out.tools.of(got.body) == R"([ {"type":"function"} ])");
    CHECK(got.out.prompt == "p");
    CHECK(got.out.prompt_tokens_estimate == 1);
  }
  CHECK(run_inspect(body, on(PathLabel::completions)).out.tools.empty());
  CHECK(run_inspect(R"({"model":"m","tools":null})", on(PathLabel::chat_completions)).out.tools.empty());
}

TEST_CASE("inspect reads cache_salt and takes null for absent") {
  CHECK(run_inspect(R"({"model":"m","cache_salt":"a\nb"})").out.cache_salt == "a\nb");
  CHECK(run_inspect(R"({"model":"m","cache_salt":null})").out.cache_salt.empty());
  const auto got = run_inspect(R"({"model":"m","messages":[{"role":"assistant","content":null,"tool_calls":null}],)"
                               R"("tools":null,"stream":null,"stream_options":null,"prompt":null,"input":null})",
                               on(PathLabel::chat_completions));
  REQUIRE(got.ok);
  CHECK(got.out.prompt.empty());
  CHECK(got.out.ask_usage.empty());
}

TEST_CASE("inspect can be called again with the same objects") {
  auto first = run_inspect(
      R"({"model":"a","stream":true,"cache_salt":"s","tools":[1],"messages":[{"role":"u","content":[{"type":"image_url","image_url":1}]}]})",
      on(PathLabel::chat_completions));
  REQUIRE(first.ok);
  REQUIRE(first.out.media.size() == 1);
  std::string body = R"({"model":"b"})";
  body.append(body_padding, ' ');
  Inspection& out = first.out;
  REQUIRE(inspect(std::string_view(body).substr(0, 13), {}, out, first.refusal));
  CHECK(out.model == "b");
  CHECK(out.model_values.size() == 1);
  CHECK_FALSE(out.stream);
  CHECK(out.ask_usage.empty());
  CHECK(out.tools.empty());
  CHECK(out.cache_salt.empty());
  CHECK(out.media.empty());
  CHECK(out.prompt.empty());
}

TEST_CASE("inspect reads a large body and keeps its digits") {
  const std::string text = repeat("0123456789 \\n", 700'000);
  auto got = run_inspect(R"({"seed":9007199254740993,"temperature":1e0,"model":"m","prompt":")" + text + "\"}");
  REQUIRE(got.ok);
  CHECK(got.out.prompt.size() == 8192);
  CHECK(got.out.prompt_tokens_estimate == 12 * 700'000 / 4);
  CHECK(sent(got, "x").starts_with(R"({"seed":9007199254740993,"temperature":1e0,"model":"x","prompt")"));
  CHECK(run_inspect(R"({"model":"m","prompt":"small"})").out.prompt == "small");
}

}  // namespace
}  // namespace warmroute::openai::test
