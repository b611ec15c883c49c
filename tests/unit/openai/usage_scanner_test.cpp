#include "openai/usage_scanner.hpp"

#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace warmroute::openai {
namespace {

struct Run {
  std::string out;
  Usage usage;
  bool terminated = false;
};

/// Feeds `pieces` one after the other; the views are read before the next call, as the contract says.
Run run(Protocol protocol, BodyKind kind, bool remove, const std::vector<std::string_view>& pieces) {
  UsageScanner scanner(protocol, kind, remove);
  Run result;
  std::vector<std::string_view> out;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string copy(pieces[i]);  // a buffer of its own, so that reading beyond it is seen by the sanitizer
    out.clear();
    scanner.feed(copy, out, i + 1 == pieces.size());
    std::string now;
    for (const std::string_view view : out) now.append(view);
    if (!remove) CHECK(now == copy);
    result.out += now;
  }
  out.clear();
  scanner.finish(out);
  for (const std::string_view view : out) result.out.append(view);
  result.usage = scanner.usage();
  result.terminated = scanner.terminated();
  return result;
}

void check_same(const Run& got, const Run& want) {
  CHECK(got.out == want.out);
  CHECK(got.terminated == want.terminated);
  CHECK(got.usage.seen == want.usage.seen);
  CHECK(got.usage.prompt_tokens == want.usage.prompt_tokens);
  CHECK(got.usage.completion_tokens == want.usage.completion_tokens);
  CHECK(got.usage.total_tokens == want.usage.total_tokens);
  CHECK(got.usage.cached_tokens == want.usage.cached_tokens);
}

struct Expected {
  std::string text;     ///< what the engine sends
  std::string removed;  ///< what arrives when the router asked for usage; "=": the same
  Usage usage;          ///< seen: false when nothing is to be reported
  bool terminated = false;
};

/// In one piece, in two at every position, and byte by byte; with and without removal.
void check_every_split(Protocol protocol, BodyKind kind, const Expected& expected) {
  INFO(expected.text.substr(0, 300));
  for (const bool remove : {false, true}) {
    const bool same = !remove || expected.removed == "=";
    const Run want{same ? expected.text : expected.removed, expected.usage, expected.terminated};
    const std::string_view text = expected.text;
    check_same(run(protocol, kind, remove, {text}), want);
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      INFO("cut at " << cut << (remove ? ", removing" : ""));
      check_same(run(protocol, kind, remove, {text.substr(0, cut), text.substr(cut)}), want);
    }
    std::vector<std::string_view> bytes;
    for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    check_same(run(protocol, kind, remove, bytes), want);
  }
}

Usage usage(std::int64_t prompt, std::int64_t completion, std::int64_t cached = -1) {
  return {prompt, completion, prompt + completion, cached, true};
}

void check_stream(const Expected& expected) { check_every_split(Protocol::openai, BodyKind::event_stream, expected); }

const std::string text_event = R"(data: {"choices":[{"index":0,"delta":{"content":"a"}}],"usage":null})"
                               "\n\n";
const std::string usage_json = R"({"prompt_tokens":7,"completion_tokens":2,"total_tokens":9})";
const std::string usage_event = "data: {\"choices\":[],\"usage\":" + usage_json + "}\n\n";
const std::string done_event = "data: [DONE]\n\n";

TEST_CASE("usage-only events are removed with their blank line, when the router asked") {
  check_stream({text_event + usage_event + done_event, text_event + done_event, usage(7, 2), true});
  check_stream({"data: {\"usage\":" + usage_json + "}\n\n" + done_event, done_event, usage(7, 2), true});
  check_stream({"data: {\"choices\":null,\"usage\":" + usage_json + "}\n\n", "", usage(7, 2)});
  check_stream({usage_event + text_event, text_event, usage(7, 2)});
  check_stream({usage_event + usage_event + text_event + usage_event, text_event, usage(7, 2)});
}

TEST_CASE("events with content and usage are kept") {
  const std::string event = "data: {\"choices\":[{\"delta\":{\"content\":\"last\"}}],\"usage\":" + usage_json + "}\n\n";
  check_stream({event, "=", usage(7, 2)});
  check_stream({event + usage_event + done_event, event + done_event, usage(7, 2), true});
  check_stream({"data: {\"choices\":\"odd\",\"usage\":" + usage_json + "}\n\n", "=", {}});
}

TEST_CASE("the last usage that is not null wins, and null is no usage") {
  const std::string later = R"(data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}})"
                            "\n\n";
  check_stream({usage_event + later, "", usage(7, 5)});
  check_stream({usage_event + text_event, text_event, usage(7, 2)});
  check_stream({"data: {\"choices\":[], \"usage\" : null}\n\n", "=", {}});
  check_stream({"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":0,\"completion_tokens\":0}}\n\n", "", {}});
  check_stream({R"(data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":0,"total_tokens":7,)"
                R"("prompt_tokens_details":{"cached_tokens":4}}})"
                "\n\n",
                "", usage(7, 0, 4)});
}

TEST_CASE("all spellings of a stream are understood and arrive untouched") {
  const std::string crlf = ": ping\r\n\r\nevent: message\r\nid: 1\r\ndata:{\"choices\":[],\"usage\":" + usage_json +
                           "}\r\n\r\n: pong\r\n\r\ndata:[DONE]\r\n\r\n";
  check_stream({crlf, ": ping\r\n\r\n: pong\r\n\r\ndata:[DONE]\r\n\r\n", usage(7, 2), true});
  const std::string cr = ": ping\r\rdata: {\"a\":1}\r\rdata: {\"usage\":" + usage_json + "}\r\rdata: [DONE]\r\r";
  check_stream({cr, ": ping\r\rdata: {\"a\":1}\r\rdata: [DONE]\r\r", usage(7, 2), true});
  const std::string lines = "data: {\"choices\":[],\ndata: \"usage\":\ndata:" + usage_json + "}\n\n";
  check_stream({text_event + lines + text_event, text_event + text_event, usage(7, 2)});
  check_stream({"data\n\ndata:\n\n\n\n" + usage_event + "\n\n", "data\n\ndata:\n\n\n\n\n\n", usage(7, 2)});
  // mixed line ends: the LF behind a CR is a part of the blank line
  check_stream({"data: {\"usage\":" + usage_json + "}\n\r\ndata: x\r\n\n", "data: x\r\n\n", usage(7, 2)});
}

TEST_CASE("[DONE] counts only as a whole line") {
  check_stream({"data: {\"choices\":[{\"delta\":{\"content\":\"print('data: [DONE]')\"}}]}\n\n", "=", {}});
  check_stream({"data: {\"choices\":[{\"delta\":{\"content\":\"[DONE]\"}}]}\n\n" + done_event, "=", {}, true});
  check_stream({"data: [DONE] \n\n", "=", {}, true});
  check_stream({"data: x[DONE]\n\n", "=", {}});
  check_stream({"xdata: [DONE]\n\n", "=", {}});
  check_stream({": c\nid: 7\ndata: [DONE]\n\n", "=", {}, true});
}

TEST_CASE("text that only looks like usage is left alone") {
  check_stream({R"(data: {"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":1}"}}]})"
                "\n\n",
                "=",
                {}});
  check_stream({"data: {\"x\":{\"usage\":" + usage_json + "}}\n\n", "=", {}});
  check_stream({"data: {\"choices\":[],\"usage\":" + usage_json + "\n\n", "=", {}});
  check_stream({"data: {\"choices\":[],\"usage\":" + usage_json + "} x\n\n", "=", {}});
  check_stream({"data: [{\"usage\":" + usage_json + "}]\n\n", "=", {}});
  for (const std::string bad : {"\"7\"", "7.0", "1e2", "-1", "true", "[]", "99999999999999999999"}) {
    check_stream({"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":" + bad + ",\"total_tokens\":9}}\n\n", "=", {}});
  }
}

TEST_CASE("a stream without its last blank line") {
  const std::string open_usage = "data: {\"choices\":[],\"usage\":" + usage_json + "}";
  check_stream({text_event + open_usage + "\n", text_event, usage(7, 2)});
  check_stream({text_event + open_usage, text_event, usage(7, 2)});
  check_stream({"data: [DONE]", "=", {}, true});
  check_stream({text_event + "data: {\"choi", "=", {}});
}

TEST_CASE("an event over the limit is passed on unread") {
  for (const bool remove : {false, true}) {
    const std::size_t limit = remove ? UsageScanner::hold_limit : UsageScanner::read_limit;
    const auto event = [&](std::size_t size) {
      const std::string head = "data: {\"choices\":[],\"usage\":" + usage_json + ",\"x\":\"";
      const std::string tail = "\"}\n\n";
      return head + std::string(size - head.size() - tail.size(), 'x') + tail;
    };
    for (const std::size_t size : {limit, limit + 1}) {
      const bool fits = size <= limit;
      const std::string text = text_event + event(size) + usage_event;
      const Run want{remove ? (fits ? text_event : text_event + event(size)) : text, usage(7, 2), false};
      check_same(run(Protocol::openai, BodyKind::event_stream, remove, {text}), want);
      for (const std::size_t piece : {std::size_t{1000}, std::size_t{65'536}, size - 1}) {
        std::vector<std::string_view> pieces;
        for (std::size_t at = 0; at < text.size(); at += piece)
          pieces.push_back(std::string_view(text).substr(at, piece));
        check_same(run(Protocol::openai, BodyKind::event_stream, remove, pieces), want);
      }
      const Run alone = run(Protocol::openai, BodyKind::event_stream, remove, {event(size)});
      CHECK(alone.usage.seen == fits);
    }
  }
}

TEST_CASE("complete events are not held back, incomplete ones only when removing") {
  UsageScanner scanner(Protocol::openai, BodyKind::event_stream, true);
  std::vector<std::string_view> out;
  const std::string first = text_event + "data: {";
  scanner.feed(first, out);
  REQUIRE(out.size() == 1);
  CHECK(out[0] == text_event);
  CHECK(scanner.at_event_boundary());
  out.clear();
  const std::string rest = "\"a\":1}\n\n";
  scanner.feed(rest, out);
  REQUIRE(out.size() == 1);
  CHECK(out[0] == "data: {\"a\":1}\n\n");
  CHECK(scanner.at_event_boundary());
  out.clear();
  scanner.feed("", out);
  CHECK(out.empty());
}

TEST_CASE("at_event_boundary follows what was handed out") {
  std::vector<std::string_view> out;
  UsageScanner plain(Protocol::openai, BodyKind::event_stream, false);
  CHECK(plain.at_event_boundary());
  plain.feed("data: x\n", out);
  CHECK_FALSE(plain.at_event_boundary());
  plain.feed("\n", out);
  CHECK(plain.at_event_boundary());
  plain.feed("data: x\r\n\r", out);
  CHECK(plain.at_event_boundary());
  plain.feed("\n", out);
  CHECK(plain.at_event_boundary());
  plain.feed("d", out);
  CHECK_FALSE(plain.at_event_boundary());

  UsageScanner removing(Protocol::openai, BodyKind::event_stream, true);
  out.clear();
  removing.feed("data: x", out);
  CHECK(out.empty());
  CHECK(removing.at_event_boundary());
  removing.finish(out);
  CHECK(out.size() == 1);
  CHECK_FALSE(removing.at_event_boundary());

  UsageScanner large(Protocol::openai, BodyKind::event_stream, true);
  const std::string big = "data: " + std::string(UsageScanner::hold_limit, 'x');
  large.feed(big, out);
  CHECK_FALSE(large.at_event_boundary());
  large.feed("\n\n", out);
  CHECK(large.at_event_boundary());

  UsageScanner json(Protocol::openai, BodyKind::json, false);
  CHECK(json.at_event_boundary());
  json.feed("{", out);
  CHECK_FALSE(json.at_event_boundary());
}

TEST_CASE("responses report the usage of a completed answer") {
  const std::string delta = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\"}\n\n";
  const std::string numbers = R"("usage":{"input_tokens":12,"output_tokens":3,"total_tokens":0,)"
                              R"("input_tokens_details":{"cached_tokens":8}})";
  const std::string completed =
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{" + numbers + "}}\n\n";
  check_every_split(Protocol::responses, BodyKind::event_stream, {delta + completed, "=", usage(12, 3, 8), true});
  check_every_split(
      Protocol::responses, BodyKind::event_stream,
      {"data: {\"type\":\"x\"," + numbers + "}\n\n" + delta + "data: {\"type\":\"response.completed\"}\n\n", "=",
       usage(12, 3, 8), true});
  check_every_split(Protocol::responses, BodyKind::event_stream,
                    {"data: {\"type\":\"x\"," + numbers + "}\n\n" + delta, "=", {}});
  check_every_split(Protocol::responses, BodyKind::event_stream,
                    {"data: {\"type\":\"x\",\"delta\":\"response.completed\"}\n\n", "=", {}});
  check_every_split(Protocol::responses, BodyKind::json,
                    {R"({"id":"r","usage":{"input_tokens":8,"output_tokens":2}})", "=", usage(8, 2)});
}

TEST_CASE("messages add up cache reads and writes, and are complete at message_stop") {
  const std::string start = R"(data: {"type":"message_start","message":{"usage":{"input_tokens":11,)"
                            R"("cache_creation_input_tokens":7,"cache_read_input_tokens":5,"output_tokens":1}}})"
                            "\n\n";
  const std::string delta = R"(data: {"type":"message_delta","usage":{"output_tokens":22}})"
                            "\n\n";
  const std::string stop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
  check_every_split(Protocol::anthropic, BodyKind::event_stream, {start + delta + stop, "=", usage(23, 22, 5), true});
  check_every_split(Protocol::anthropic, BodyKind::event_stream, {start + delta, "=", {}});
  check_every_split(Protocol::anthropic, BodyKind::json,
                    {R"({"type":"message","usage":{"input_tokens":3,"output_tokens":2}})", "=", usage(3, 2)});
}

TEST_CASE("usage of a JSON body is found without keeping the body") {
  const auto check = [](const std::string& text, Usage wanted) {
    check_every_split(Protocol::openai, BodyKind::json, {text, "=", wanted});
  };
  const std::string member = "\"usage\":" + usage_json;
  check("{" + member + "}", usage(7, 2));
  check(" {\n \"id\" : \"a\\\"b\\\\\" , \"n\":[1,{\"usage\":5},\"}\"], " + member + " , \"x\":-1.5e3}\n", usage(7, 2));
  check("{\"choices\":[{\"message\":{\"content\":\"\\\"usage\\\": {\\\\\"}}]," + member + "}", usage(7, 2));
  check("{\"usage\":null," + member + "}", usage(7, 2));
  check("{" + member + ",\"usage\":null}", usage(7, 2));
  check("{\"usage\": {\"x\":{\"y\":[\"}\"]},\"prompt_tokens\":4,\"completion_tokens\":1}}", usage(4, 1));
  check("{" + member, usage(7, 2));
  for (const std::string& none :
       {std::string("{\"a\":{" + member + "}}"), std::string("[{" + member + "}]"), std::string("\"usage\""),
        std::string("{\"usage\":[" + usage_json + "]}"), std::string("{\"usage\":\"x\"}"),
        std::string("{\"usages\":1}"), std::string("{\"usage\":{\"prompt_tokens\":1.5}}"),
        std::string("{\"usage\":{\"total_tokens\":0}}"), std::string("{\"usag\\u0065\":" + usage_json + "}"),
        std::string("{\"usage\" " + usage_json + "}"), std::string("{\"usage\":{\"prompt_tokens\":1"),
        std::string("}}}{"), std::string("<html>\"usage\":{}")}) {
    check(none, {});
  }
  check_same(run(Protocol::openai, BodyKind::json, false, {"{} ", "{" + member + "}"}),
             {"{} {" + member + "}", {}, false});
  const std::string large =
      "{\"usage\":{\"x\":\"" + std::string(JsonUsageCapture::capture_limit, 'x') + "\"}," + member + "}";
  check_same(run(Protocol::openai, BodyKind::json, false, {large}), {large, usage(7, 2), false});
}

TEST_CASE("a whole body and its pieces say the same") {
  std::mt19937 random(7);
  const auto pick = [&](std::size_t bound) { return random() % bound; };
  const auto counts = [&] {
    return R"({"prompt_tokens":)" + std::to_string(pick(3)) + R"(,"completion_tokens":)" + std::to_string(pick(3)) +
           "}";
  };
  const std::function<std::string(int)> value = [&](int depth) -> std::string {
    static const std::vector<std::string> plain = {
        "1", "null", "true", "-2.5e3", R"("")", R"("usage")", R"("\"usage\":{")", R"("}]{")", R"("a\\")"};
    if (depth == 0 || pick(3) == 0) return plain[pick(plain.size())];
    const bool object = pick(2) == 0;
    std::string text(1, object ? '{' : '[');
    for (std::size_t i = 0, count = pick(4); i < count; ++i) {
      if (i > 0) text += pick(2) == 0 ? "," : " ,\n";
      if (object)
        text += std::vector<std::string>{R"("usage":)", R"("a" : )", R"("usages":)", R"("us\u0061ge":)"}[pick(4)];
      if (object && pick(3) == 0)
        text += counts();
      else
        text += value(depth - 1);
    }
    return text + (object ? "}" : "]");
  };
  int with_usage = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string body =
        R"({"x":)" + value(3) + R"(,"usage":)" + (pick(2) == 0 ? counts() : value(2)) + R"(,"y":)" + value(2) + "}";
    CAPTURE(body);
    const auto whole = run(Protocol::openai, BodyKind::json, false, {body});
    const auto half = body.size() / 2;
    check_same(whole, run(Protocol::openai, BodyKind::json, false,
                          {std::string_view(body).substr(0, half), std::string_view(body).substr(half)}));
    with_usage += whole.usage.seen ? 1 : 0;
  }
  CHECK(with_usage > 500);
}

TEST_CASE("encoded bodies pass unread") {
  check_every_split(Protocol::openai, BodyKind::opaque, {usage_event + done_event, "=", {}});
}

}  // namespace
}  // namespace warmroute::openai
