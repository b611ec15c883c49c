// What counts as the prompt, in default mode; the golden vectors hold the forms that Go knows too.
#include "openai/prompt.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "unit/openai/inspect_fixture.hpp"

namespace warmroute::openai::test {
namespace {

Inspected with(const std::string& members, std::size_t prompt_bytes = 8192) {
  return run_inspect(R"({"model":"m",)" + members + "}", {.prompt_bytes = prompt_bytes});
}

void check_prompt(const std::string& members, const std::string& prompt, std::int64_t tokens) {
  INFO(members);
  const auto got = with(members);
  REQUIRE(got.ok);
  CHECK(got.out.prompt == prompt);
  CHECK(got.out.prompt_tokens_estimate == tokens);
}

TEST_CASE("prompt: lists of strings are joined, token ids are taken as they stand") {
  check_prompt(R"("prompt":["a\u0062","c"])", "ab\nc", 1);
  check_prompt(R"("prompt":["","",""])", "\n\n", 1);
  check_prompt(R"("prompt":[1, 22,333])", "[1, 22,333]", 3);
  check_prompt(R"("prompt":[ [1,2] , [3] ])", "[ [1,2] , [3] ]", 3);
  for (const std::string other : {"[]", "[[]]", "[null]", "[1,\"a\"]", "[\"a\",1]", "[\"a\",null]", "[[1,\"a\"]]",
                                  "[{}]", "{\"a\":1}", "765", "true", "[[[1]]]"}) {
    check_prompt("\"prompt\":" + other, "", 0);
    CHECK_FALSE(run_inspect(R"({"model":"m","prompt":)" + other + "}", {.compat = true}).ok);
  }
  check_prompt(R"("prompt":[-1,01,2e5])", "[-1,01,2e5]", 3);  // digits are the engine's business
  const auto cut = with(R"("prompt":[11,22,33])", 4);
  CHECK(cut.out.prompt == "[11,");
  CHECK(cut.out.prompt_tokens_estimate == 3);
}

TEST_CASE("prompt: the first of prompt, messages and input that is not null decides") {
  const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";
  const std::string hi = "<|im_start|>user\nhi<|im_end|>\n";
  check_prompt(R"("prompt":null,)" + messages, hi, 8);
  check_prompt(R"("input":"x",)" + messages, hi, 8);
  check_prompt(R"("prompt":"",)" + messages, "", 0);
  check_prompt(R"("prompt":7,)" + messages, "", 0);
  check_prompt(R"("messages":null,"input":"x")", "<|im_start|>user\nx<|im_end|>\n", 8);
  check_prompt(R"("messages":"text")", "", 0);
  check_prompt(R"("messages":{},"system":"s")", "", 0);
  check_prompt(R"("input":{})", "", 0);
  check_prompt(R"("input":[1,2])", "", 0);
  check_prompt(R"("query":"q","documents":["d"])", "", 0);
}

TEST_CASE("prompt: instructions or system alone are rendered") {
  check_prompt(R"("instructions":"be kind")", "<|im_start|>developer\nbe kind<|im_end|>\n", 10);
  check_prompt(R"("system":[{"type":"text","text":"a"},{"text":"b"}],"messages":null)",
               "<|im_start|>system\na\nb<|im_end|>\n", 9);
  check_prompt(R"("instructions":"")", "", 0);
  check_prompt(R"("instructions":null,"system":null)", "", 0);
  CHECK(run_inspect(R"({"model":"m","instructions":"x"})", {.compat = true}).refusal.kind == ErrorKind::prompt_missing);
}

TEST_CASE("prompt: messages without text vanish, malformed values in them do not pass") {
  check_prompt(R"("messages":[{"role":"user","content":42},{"role":"user","content":"x"}])",
               "<|im_start|>user\nx<|im_end|>\n", 8);
  check_prompt(R"("messages":[{"role":"user","content":[]},{"content":"x"},{"role":7,"content":"x"},[],"s",null,1])",
               "", 0);
  CHECK_FALSE(with(R"("messages":[{"role":"user","content":tru}])").ok);
  CHECK_FALSE(with(R"("messages":[{"role":"us\er","content":"x"}])").ok);
  CHECK_FALSE(with(R"("messages":[nul])").ok);
  check_prompt(R"("messages":[{"role":"user","content":"x","name":"\q","extra":tru}])",
               "<|im_start|>user\nx<|im_end|>\n", 8);
}

TEST_CASE("prompt: the text is cut, the estimate is not") {
  const std::string content = "abc\\n\\u00e9\u00e9\\ud83d\\ude00z";
  const std::string whole = "<|im_start|>user\nabc\n\u00e9\u00e9\U0001F600z<|im_end|>\n";
  const std::string members = R"("messages":[{"role":"user","content":")" + content + "\"}]";
  for (std::size_t limit = 0; limit <= whole.size() + 1; ++limit) {
    INFO(limit);
    const auto got = with(members, limit);
    REQUIRE(got.ok);
    CHECK(got.out.prompt == whole.substr(0, limit));
    CHECK(got.out.prompt_tokens_estimate == (17 + 8 + 11 + 3) / 4);
  }
  CHECK_FALSE(with(R"("prompt":"0123456789\q")", 4).ok);
}

TEST_CASE("prompt: media parts leave a digest where they stand") {
  const auto message = [](const std::string& parts) {
    return R"("messages":[{"role":"user","content":"a"},{"role":"user","content":[)" + parts + R"(]},)" +
           R"({"role":"user","content":"b"}])";
  };
  const std::string first = "<|im_start|>user\na<|im_end|>\n";
  const std::string cat = R"({"type":"image_url","image_url":{"url":"data:AAAA"}})";
  const std::string dog = R"({"type":"image_url","image_url":{"url":"data:BBBB"}})";
  const std::string text = R"({"type":"text","text":"t"})";

  const auto before = with(message(cat + "," + text));
  const auto behind = with(message(text + "," + cat));
  const auto alone = with(message(cat));
  const auto other = with(message(dog + "," + text));
  REQUIRE(before.out.media.size() == 1);
  REQUIRE(behind.out.media.size() == 1);
  REQUIRE(alone.out.media.size() == 1);
  REQUIRE(other.out.media.size() == 1);
  CHECK(before.out.prompt == behind.out.prompt);
  CHECK(before.out.media[0].text_offset == first.size() + 17);
  CHECK(behind.out.media[0].text_offset == first.size() + 18);
  CHECK(alone.out.media[0].text_offset == first.size());
  CHECK(alone.out.prompt == first + "<|im_start|>user\nb<|im_end|>\n");
  CHECK(before.out.media[0].digest == behind.out.media[0].digest);
  CHECK(before.out.media[0].digest != other.out.media[0].digest);

  for (const std::string part :
       {R"({"type":"input_image","image_url":"u"})", R"({"type":"input_image","file_id":"f"})",
        R"({"source":{"data":"x"},"type":"image"})", R"({"type":"input_audio","input_audio":{"data":"x"}})",
        R"({"type":"file","file":{"file_id":"x"}})", R"({"type":"video_url","video_url":{"url":"x"}})",
        R"({"type":"document","source":{"data":"x"}})"}) {
    INFO(part);
    CHECK(with(message(part)).out.media.size() == 1);
  }
  for (const std::string part :
       {R"({"type":"tool_use","input":{}})", R"({"type":"thinking","thinking":"x"})", "null"}) {
    CHECK(with(message(part)).out.media.empty());
  }
  // The payload alone counts: a moving cache_control must not spoil the match.
  CHECK(with(message(R"({"type":"image","source":1,"cache_control":{"type":"ephemeral"}})")).out.media[0].digest ==
        with(message(R"({"type":"image","source":1})")).out.media[0].digest);
  CHECK(with(message(cat), first.size()).out.media.empty());
  CHECK(with(R"("input":[{"role":"user","content":[{"type":"input_image","image_url":"u"}]}])").out.media.size() == 1);
}

TEST_CASE("prompt: requests that differ only in the form of content") {
  check_prompt(R"("messages":[{"role":"user","content":[{"type":"text","text":"first"}]}])",
               "<|im_start|>user\nfirst<|im_end|>\n", 9);
  check_prompt(R"("prompt":"cut \ud83d")", "cut \xEF\xBF\xBD", 2);
}

}  // namespace
}  // namespace warmroute::openai::test
