#include "pd/body_members.hpp"

#include <catch2/catch.hpp>
#include <functional>

namespace warmroute::test {
namespace {

using pd::BodyEditor;
using pd::BodyMembers;

std::string padded(std::string text) {
  text.reserve(text.size() + 64);
  return text;
}

std::string edited(const std::string& text, const std::function<void(BodyEditor&)>& change) {
  const std::string body = padded(text);
  const BodyMembers members(body);
  BodyEditor editor(members);
  change(editor);
  std::vector<http::Edit> edits;
  editor.append_edits(edits);
  std::string out;
  for (const auto piece : http::splice(body, edits)) out += piece;
  return out;
}

std::string without_stream(const std::string& text) {
  return edited(text, [](BodyEditor& editor) {
    editor.remove("stream");
    editor.remove("stream_options");
  });
}

std::string one_token(const std::string& text) {
  return edited(text, [](BodyEditor& editor) {
    editor.remove("stream");
    editor.set("max_tokens", "1");
  });
}

TEST_CASE("a removed member takes one comma along, wherever it stands", "[pd]") {
  CHECK(without_stream(R"({"a":1,"stream":true})") == R"({"a":1})");
  CHECK(without_stream(R"({"stream":true,"a":1})") == R"({"a":1})");
  CHECK(without_stream(R"({"a":1,"stream":true,"b":2})") == R"({"a":1,"b":2})");
  CHECK(without_stream(R"({"stream":true,"stream_options":{"x":[1,2]},"a":1})") == R"({"a":1})");
  CHECK(without_stream(R"({"a":1,"stream":true,"stream_options":null})") == R"({"a":1})");
  CHECK(without_stream(R"({"stream":true,"a":1,"stream_options":{}})") == R"({"a":1})");
  CHECK(without_stream(R"({"stream":true})") == "{}");
  CHECK(without_stream(R"({"stream":1,"a":{"stream":true},"stream":2})") == R"({"a":{"stream":true}})");
  CHECK(without_stream(R"({"\u0073tream":true,"a":1})") == R"({"a":1})");
  CHECK(without_stream(" { \"a\" : 1 ,\n \"stream\" : true }\n") == " { \"a\" : 1 }\n");
  CHECK(without_stream(" { \"stream\" : true , \"a\" : 1 } ") == " { \"a\" : 1 } ");
}

TEST_CASE("a member is set wherever it stands, or in front", "[pd]") {
  CHECK(one_token(R"({"a":1})") == R"({"max_tokens":1,"a":1})");
  CHECK(one_token(R"({"max_tokens":50,"a":1})") == R"({"max_tokens":1,"a":1})");
  CHECK(one_token(R"({"max_tokens":50,"max_tokens":null,"a":1})") == R"({"max_tokens":1,"max_tokens":1,"a":1})");
  CHECK(one_token(R"({"max_tokens":{"x":2}})") == R"({"max_tokens":1})");
  CHECK(one_token(R"({"stream":true})") == R"({"max_tokens":1})");
  CHECK(one_token(R"({"stream":true,"a":1})") == R"({"max_tokens":1,"a":1})");
  CHECK(one_token(R"({"a":1,"stream":true})") == R"({"max_tokens":1,"a":1})");
  CHECK(one_token(R"({})") == R"({"max_tokens":1})");
  CHECK(one_token("{ \"a\":1 }") == "{\"max_tokens\":1, \"a\":1 }");
}

TEST_CASE("what is not named stays as the client wrote it", "[pd]") {
  const std::string odd = R"({"n":1e400,"id":12345678901234567890123,"d":1.0,"d":2,"s":"\ud800<&>","x": [ 1 ,2 ]})";
  CHECK(one_token(odd) == R"({"max_tokens":1,)" + odd.substr(1));
}

TEST_CASE("the last of equal names says whether there is a value", "[pd]") {
  const std::string body = padded(R"({"a":1,"a":null,"b":null,"b":0})");
  const BodyMembers members(body);
  CHECK(members.has("a"));
  CHECK_FALSE(members.has_value("a"));
  CHECK(members.has_value("b"));
  CHECK_FALSE(members.has("c"));
}

TEST_CASE("a member of an answer is its bytes", "[pd]") {
  const auto member = [](const std::string& text) { return pd::member_of(padded(text), "kv"); };
  CHECK(member(R"({"kv":{"id":18446744073709551615,"f":1.0},"x":1})") == R"({"id":18446744073709551615,"f":1.0})");
  CHECK(member(R"({"x":{"kv":1}})") == "");
  CHECK(member(R"({"kv":1,"kv": [2] })") == "[2]");
  CHECK(member(R"({"kv":null})") == "null");
  CHECK_FALSE(member("[1]").has_value());
  CHECK_FALSE(member("").has_value());
  CHECK_FALSE(member("not json").has_value());
  CHECK_FALSE(member(R"({"kv":1)").has_value());
  CHECK_FALSE(member(R"({"kv":1} x)").has_value());
}

}  // namespace
}  // namespace warmroute::test
