#include "openai/error_body.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace warmroute::openai {
namespace {

constexpr ErrorForm plain{};
constexpr ErrorForm compat{.compat = true};
constexpr ErrorForm anthropic{.anthropic = true};

TEST_CASE("error objects have OpenAI's form") {
  const ErrorReply reply = render_error(ErrorKind::no_pods, "no available pods for model server: a/b", plain);
  CHECK(reply.status == 503);
  CHECK(reply.content_type == "application/json");
  CHECK(reply.retry_after_seconds == 1);
  CHECK_FALSE(reply.close);
  CHECK(reply.body ==
        R"({"error":{"message":"no available pods for model server: a/b","type":"overloaded_error","param":null,)"
        R"("code":"pod_discovery"}})");
}

TEST_CASE("statuses, codes and metric labels") {
  struct Case {
    ErrorKind kind;
    int status, compat_status;
    std::string code, metric;
    bool close;
  };
  const std::vector<Case> cases{
      {ErrorKind::body_interrupted, 400, 500, "request_parsing", "request_parsing", true},
      {ErrorKind::body_timeout, 408, 408, "request_parsing", "request_parsing", true},
      {ErrorKind::bad_json, 400, 400, "request_parsing", "request_parsing", false},
      {ErrorKind::trailing_data, 400, 400, "request_parsing", "request_parsing", false},
      {ErrorKind::model_missing, 400, 404, "request_parsing", "request_parsing", false},
      {ErrorKind::prompt_missing, 404, 404, "prompt_parsing", "prompt_parsing", false},
      {ErrorKind::bad_framing, 400, 400, "request_parsing", "request_parsing", true},
      {ErrorKind::head_too_large, 431, 431, "request_parsing", "request_parsing", true},
      {ErrorKind::unknown_coding, 501, 501, "request_parsing", "request_parsing", true},
      {ErrorKind::bad_version, 505, 505, "request_parsing", "request_parsing", true},
      {ErrorKind::body_too_large, 413, 413, "request_parsing", "request_parsing", true},
      {ErrorKind::unsupported_encoding, 415, 415, "request_parsing", "request_parsing", false},
      {ErrorKind::route_not_found, 404, 404, "route_not_found", "route_not_found", false},
      {ErrorKind::server_missing, 404, 404, "pod_discovery", "pod_discovery", false},
      {ErrorKind::no_pods, 503, 503, "pod_discovery", "pod_discovery", false},
      {ErrorKind::all_filtered, 503, 400, "scheduling", "", false},
      {ErrorKind::all_pods_failed, 503, 503, "proxy", "proxy", false},
      {ErrorKind::all_pods_timed_out, 504, 504, "proxy", "proxy", false},
      {ErrorKind::not_supported, 503, 503, "not_supported", "not_supported", false},
      {ErrorKind::internal, 500, 500, "internal_error", "", false}};
  for (const auto& c : cases) {
    INFO(c.code << ' ' << c.status);
    CHECK(status(c.kind, false) == c.status);
    CHECK(status(c.kind, true) == c.compat_status);
    CHECK(code(c.kind) == c.code);
    CHECK(metric_error_type(c.kind) == c.metric);
    const ErrorReply reply = render_error(c.kind, "m", plain);
    CHECK(reply.status == c.status);
    CHECK(reply.close == c.close);
    CHECK(reply.retry_after_seconds == (c.status == 503 ? 1 : 0));
    const ErrorReply go = render_error(c.kind, "m", compat);
    CHECK(go.status == c.compat_status);
    CHECK(go.retry_after_seconds == 0);
  }
}

TEST_CASE("type names by status") {
  const std::vector<std::pair<int, std::string>> types{{400, "invalid_request_error"},
                                                       {401, "authentication_error"},
                                                       {404, "not_found_error"},
                                                       {408, "api_error"},
                                                       {413, "invalid_request_error"},
                                                       {415, "invalid_request_error"},
                                                       {429, "rate_limit_error"},
                                                       {431, "invalid_request_error"},
                                                       {500, "api_error"},
                                                       {502, "api_error"},
                                                       {503, "overloaded_error"},
                                                       {504, "timeout_error"}};
  for (const auto& [number, type] : types) CHECK(error_type(number) == type);
}

TEST_CASE("Anthropic's form") {
  CHECK(render_error(ErrorKind::route_not_found, "route not found", anthropic).body ==
        R"({"type":"error","error":{"message":"route not found","type":"not_found_error","param":null,)"
        R"("code":"route_not_found"}})");
  CHECK(render_error(ErrorKind::body_too_large, "x", anthropic).body.find("\"request_too_large\"") !=
        std::string::npos);
  CHECK(render_error(ErrorKind::body_too_large, "x", plain).body.find("\"invalid_request_error\"") !=
        std::string::npos);
}

TEST_CASE("compat: bare strings, HTML escaped") {
  const ErrorReply reply =
      render_error(ErrorKind::all_filtered, "pods have all been filtered out by \"a<b>&c\"", compat);
  CHECK(reply.status == 400);
  CHECK(reply.content_type == "application/json; charset=utf-8");
  CHECK(reply.body == R"("pods have all been filtered out by \"a\u003cb\u003e\u0026c\"")");
  const ErrorReply path = render_error(ErrorKind::path_not_found, "404 page not found", compat);
  CHECK(path.content_type == "text/plain");
  CHECK(path.body == "404 page not found");
  const ErrorReply framing = render_error(ErrorKind::bad_framing, "missing required Host header", compat);
  CHECK(framing.content_type == "text/plain; charset=utf-8");
  CHECK(framing.body == "400 Bad Request: missing required Host header");
  CHECK(framing.close);
}

TEST_CASE("the event that ends a cut stream") {
  CHECK(cut_stream_event("upstream closed the connection", plain) ==
        "data: {\"error\":{\"message\":\"upstream closed the connection\",\"type\":\"api_error\",\"param\":null,"
        "\"code\":\"upstream_cut\"}}\n\n");
  CHECK(cut_stream_event("x", anthropic).starts_with("event: error\ndata: {\"type\":\"error\",\"error\":{"));
  CHECK(cut_stream_event("x", compat) == cut_stream_event("x", plain));
}

TEST_CASE("JSON escaping") {
  const auto escaped = [](std::string_view text, bool html) {
    std::string out = ">";
    append_json_escaped(out, text, html);
    return out.substr(1);
  };
  CHECK(escaped("a\"\\\n\r\t\b\f\x01\x1f/\x7f", false) == "a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f/\x7f");
  CHECK(escaped("<>&", false) == "<>&");
  CHECK(escaped("<>&", true) == "\\u003c\\u003e\\u0026");
  CHECK(escaped("\u00e9\u20ac\U0001F600", true) == "\u00e9\u20ac\U0001F600");
  CHECK(escaped("\u2028\u2029", false) == "\\u2028\\u2029");
  CHECK(escaped("a\xC3(\xFFz\xE2\x82", false) == "a\\ufffd(\\ufffdz\\ufffd\\ufffd");
  CHECK(escaped(std::string_view("\0", 1), false) == "\\u0000");
  CHECK(escaped("", true).empty());
}

}  // namespace
}  // namespace warmroute::openai
