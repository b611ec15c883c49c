// Whatever a client writes into path, model, id or body comes out of logs and errors as one line of valid text.

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/forward_headers.hpp"
#include "http/percent.hpp"
#include "metrics/access_log.hpp"
#include "model/request_record.hpp"
#include "openai/error_body.hpp"

namespace {

using namespace warmroute;

void require(bool holds) {
  if (!holds) std::abort();
}

simdjson::dom::element parsed(std::string_view json) {
  static simdjson::dom::parser parser;
  simdjson::dom::element root;
  require(simdjson::validate_utf8(json.data(), json.size()));
  require(parser.parse(json.data(), json.size()).get(root) == simdjson::SUCCESS);
  return root;
}

bool one_line(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 0x20) return false;
  return true;
}

void check_errors(std::string_view message) {
  for (const bool compat : {false, true}) {
    for (const bool anthropic : {false, true}) {
      const openai::ErrorForm form{compat, anthropic};
      for (const auto kind : {openai::ErrorKind::bad_json, openai::ErrorKind::route_not_found,
                              openai::ErrorKind::overloaded, openai::ErrorKind::path_not_found}) {
        const auto reply = openai::render_error(kind, message, form);
        if (reply.content_type.starts_with("application/json")) (void)parsed(reply.body);
      }
      const auto text = openai::cut_stream_event(message, form);
      const std::string_view event = text;
      require(event.ends_with("\n\n") && event.find("\n\n") == event.size() - 2);
      (void)parsed(event.substr(event.find("data: ") + 6, event.size() - event.find("data: ") - 8));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto half = input.substr(0, size / 2);
  const auto rest = input.substr(size / 2);

  std::string path;
  if (!http::percent_decode(http::path_of(half), path)) path = half;
  model::RequestRecord record;
  record.method = "POST";
  record.protocol = "HTTP/1.1";
  record.path = path;
  record.model = rest;
  record.request_id = http::usable_request_id(rest) ? rest : std::string_view("made");
  record.path_label = model::path_label(path);
  record.status = 400;
  record.error_type = "request_parsing";
  record.error_message = input;

  std::string json;
  metrics::format_access_json(record, json);
  require(one_line(json));
  const auto root = parsed(json);
  if (simdjson::validate_utf8(rest.data(), rest.size()) && !rest.empty()) {
    std::string_view model;
    require(root["model_name"].get(model) == simdjson::SUCCESS && model == rest);
  }
  std::string text;
  metrics::format_access_text(record, text);
  require(one_line(text));
  check_errors(input);
  return 0;
}
