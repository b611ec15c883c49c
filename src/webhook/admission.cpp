#include "webhook/admission.hpp"

#include <spdlog/fmt/fmt.h>

#include <array>

#include "config/resource_json.hpp"
#include "webhook/rules.hpp"

namespace warmroute::webhook {
namespace {

struct Kind {
  std::string_view path;
  const char* name;  ///< in messages
  void (*check)(const JsonReader&, FieldErrors&);
  bool one_line;  ///< kthena-router writes a ModelServer's problems without line breaks
};
constexpr std::array<Kind, 3> kinds{{
    {"/validate/modelroute", "modelRoute", check_model_route, false},
    {"/validate/modelserver", "modelServer", check_model_server, true},
    {"/validate/externalmodelprovider", "externalModelProvider", check_external_model_provider, false},
}};

Answer refuse(int status, std::string text) {
  return {status, "text/plain; charset=utf-8", std::move(text) + "\n", false};
}

std::string denial(const Kind& kind, const FieldErrors& errors) {
  std::string text = "validation failed:";
  if (kind.one_line) text += ' ';
  for (const std::string& line : errors.lines()) {
    if (!kind.one_line) text += '\n';
    text += "  - " + line;
  }
  return text;
}

std::string response(const std::string& uid, const Kind& kind, const FieldErrors& errors) {
  config::detail::JsonWriter json;
  json.begin_object().key("uid").text(uid).key("allowed");
  std::string text = json.take();
  if (errors.empty()) return text + "true}";
  config::detail::JsonWriter message;
  return text + "false,\"status\":{\"metadata\":{},\"message\":" + message.text(denial(kind, errors)).take() + "}}";
}

/// The review as received, with our response in place of its own if it has one.
std::string answer_review(simdjson::dom::object review, const std::string& response) {
  std::string out = "{";
  for (const auto member : review) {
    if (member.key == "response") continue;
    config::detail::JsonWriter key;
    out += key.text(member.key).take() + ":" + simdjson::minify(member.value) + ",";
  }
  return out + "\"response\":" + response + "}";
}

}  // namespace

Answer review(std::string_view path, std::string_view content_type, std::string_view body) {
  const Kind* kind = nullptr;
  for (const Kind& each : kinds)
    if (each.path == path) kind = &each;
  if (kind == nullptr) return refuse(404, "404 page not found");
  if (content_type != "application/json")
    return refuse(400, fmt::format("invalid Content-Type, expected application/json, got {}", content_type));

  simdjson::dom::parser parser;
  simdjson::dom::element document;
  if (const auto error = parser.parse(body.data(), body.size()).get(document); error != simdjson::SUCCESS)
    return refuse(400, fmt::format("failed to decode body: {}", simdjson::error_message(error)));
  simdjson::dom::object received;
  if (document.get(received) != simdjson::SUCCESS) return refuse(400, "failed to decode body: expected an object");

  std::string problem;
  const JsonReader root(document, problem);
  const JsonReader request = root.get("request");
  const std::string uid = request.get("uid").text();
  if (!request && problem.empty()) problem = "request: is missing";
  if (!problem.empty()) return refuse(400, "failed to decode body: " + problem);

  const JsonReader given = request.get("object");
  if (!given) return refuse(400, fmt::format("failed to decode {}: request.object is missing", kind->name));
  FieldErrors errors;
  kind->check(given.as_root(), errors);
  if (!problem.empty()) return refuse(400, fmt::format("failed to decode {}: {}", kind->name, problem));
  return {200, "application/json", answer_review(received, response(uid, *kind, errors)), errors.empty()};
}

}  // namespace warmroute::webhook
