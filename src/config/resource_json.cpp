#include "config/resource_json.hpp"

#include <array>

#include "config/go_duration.hpp"

namespace warmroute::config::detail {

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_ += bracket;
  first_ = true;
  return *this;
}
JsonWriter& JsonWriter::close(char bracket) {
  out_ += bracket;
  first_ = false;
  return *this;
}
void JsonWriter::separate() {
  if (!first_) out_ += ',';
  first_ = false;
}
JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  out_ += ':';
  first_ = true;
  return *this;
}
JsonWriter& JsonWriter::text(std::string_view value) {
  separate();
  quote(value);
  return *this;
}
JsonWriter& JsonWriter::number(std::int64_t value) {
  separate();
  out_ += std::to_string(value);
  return *this;
}
JsonWriter& JsonWriter::boolean(bool value) {
  separate();
  out_ += value ? "true" : "false";
  return *this;
}
JsonWriter& JsonWriter::null() {
  separate();
  out_ += "null";
  return *this;
}

void JsonWriter::quote(std::string_view value) {
  constexpr std::string_view hex = "0123456789abcdef";
  out_ += '"';
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"':
        out_ += "\\\"";
        break;
      case '\\':
        out_ += "\\\\";
        break;
      case '\n':
        out_ += "\\n";
        break;
      case '\r':
        out_ += "\\r";
        break;
      case '\t':
        out_ += "\\t";
        break;
      default:
        if (byte < 0x20 || c == '<' || c == '>' || c == '&') {
          out_ += "\\u00";
          out_ += hex[byte >> 4U];
          out_ += hex[byte & 0xFU];
        } else if (value.substr(i, 3) == "\xE2\x80\xA8" || value.substr(i, 3) == "\xE2\x80\xA9") {
          out_ += value[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
          i += 2;
        } else {
          out_ += c;
        }
    }
  }
  out_ += '"';
}

namespace {

void optional_text(JsonWriter& json, std::string_view name, const std::optional<std::string>& value) {
  if (value) json.key(name).text(*value);
}
void nonempty_text(JsonWriter& json, std::string_view name, const std::string& value) {
  if (!value.empty()) json.key(name).text(value);
}

void labels(JsonWriter& json, std::string_view name, const model::Labels& values) {
  json.key(name).begin_object();
  for (const auto& [label, value] : values) json.key(label).text(value);
  json.end_object();
}

void string_match(JsonWriter& json, const model::StringMatch& match) {
  json.begin_object();
  optional_text(json, "exact", match.exact);
  optional_text(json, "prefix", match.prefix);
  optional_text(json, "regex", match.regex);
  json.end_object();
}

void rule(JsonWriter& json, const model::Rule& value) {
  json.begin_object();
  nonempty_text(json, "name", value.name);
  if (value.match) {
    json.key("modelMatch").begin_object();
    if (!value.match->headers.empty()) {
      json.key("headers").begin_object();
      for (const auto& [name, match] : value.match->headers) {
        json.key(name);
        if (match) {
          string_match(json, *match);
        } else {
          json.null();
        }
      }
      json.end_object();
    }
    if (value.match->uri) string_match(json.key("uri"), *value.match->uri);
    if (value.match->body_model) {
      json.key("body").begin_object().key("model").text(*value.match->body_model).end_object();
    }
    json.end_object();
  }
  json.key("targetModels").begin_list();
  for (const auto& target : value.targets) {
    if (!target) {
      json.null();
      continue;
    }
    json.begin_object();
    nonempty_text(json, "modelServerName", target->model_server_name);
    nonempty_text(json, "externalModelProviderName", target->external_provider_name);
    if (target->weight) json.key("weight").number(*target->weight);
    json.end_object();
  }
  json.end_list().end_object();
}

void parent_ref(JsonWriter& json, const model::ParentRef& ref) {
  json.begin_object();
  json.key("group").text(ref.group).key("kind").text(ref.kind);
  optional_text(json, "namespace", ref.ns);
  json.key("name").text(ref.name);
  optional_text(json, "sectionName", ref.section_name);
  if (ref.port) json.key("port").number(*ref.port);
  json.end_object();
}

}  // namespace

std::string route_spec_json(const model::ModelRoute& route) {
  JsonWriter json;
  json.begin_object();
  nonempty_text(json, "modelName", route.model_name);
  if (!route.lora_adapters.empty()) {
    json.key("loraAdapters").begin_list();
    for (const std::string& adapter : route.lora_adapters) json.text(adapter);
    json.end_list();
  }
  if (!route.parent_refs.empty()) {
    json.key("parentRefs").begin_list();
    for (const model::ParentRef& ref : route.parent_refs) parent_ref(json, ref);
    json.end_list();
  }
  json.key("rules").begin_list();
  for (const auto& each : route.rules) {
    if (each) {
      rule(json, *each);
    } else {
      json.null();
    }
  }
  json.end_list();
  if (route.rate_limit) {
    const model::RateLimit& limit = *route.rate_limit;
    json.key("rateLimit").begin_object();
    if (limit.input_tokens_per_unit) json.key("inputTokensPerUnit").number(*limit.input_tokens_per_unit);
    if (limit.output_tokens_per_unit) json.key("outputTokensPerUnit").number(*limit.output_tokens_per_unit);
    json.key("unit").text(limit.unit);
    if (limit.redis_address) {
      json.key("global").begin_object().key("redis").begin_object();
      json.key("address").text(*limit.redis_address).end_object().end_object();
    }
    json.end_object();
  }
  return json.end_object().take();
}

std::string server_spec_json(const model::ModelServer& server, const TrafficText& traffic) {
  JsonWriter json;
  json.begin_object();
  nonempty_text(json, "model", server.model);
  json.key("inferenceEngine").text(model::name(server.engine));
  json.key("workloadSelector").begin_object();
  labels(json, "matchLabels", server.selector);
  if (server.pd_group) {
    json.key("pdGroup").begin_object().key("groupKey").text(server.pd_group->group_key);
    labels(json, "prefillLabels", server.pd_group->prefill_labels);
    labels(json, "decodeLabels", server.pd_group->decode_labels);
    json.end_object();
  }
  json.end_object();
  json.key("workloadPort").begin_object().key("port").number(server.port);
  json.key("protocol").text(server.https ? "https" : "http").end_object();
  if (traffic.present) {
    json.key("trafficPolicy").begin_object();
    if (traffic.timeout) json.key("timeout").text(go_duration_text(*traffic.timeout));
    if (traffic.retry) {
      json.key("retry").begin_object();
      if (traffic.attempts) json.key("attempts").number(*traffic.attempts);
      if (traffic.retry_interval) json.key("retryInterval").text(go_duration_text(*traffic.retry_interval));
      json.end_object();
    }
    json.end_object();
  }
  if (server.kv_connector) {
    json.key("kvConnector").begin_object().key("type").text(*server.kv_connector).end_object();
  }
  return json.end_object().take();
}

}  // namespace warmroute::config::detail
