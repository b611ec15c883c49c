#include "webhook/secret.hpp"

#include <algorithm>

#include "base/base64.hpp"
#include "config/json_reader.hpp"
#include "config/resource_json.hpp"

namespace warmroute::webhook {
namespace {

using config::JsonReader;
using config::detail::JsonWriter;

/// An answer of the API server, read by `read(root)`.
template <class T, class Read>
Result<T> parse(const std::string& json, Read read) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string problem;
  if (const auto error = parser.parse(json).get(root); error != simdjson::SUCCESS)
    return value_error(std::string("not JSON: ") + simdjson::error_message(error));
  T out = read(JsonReader(root, problem));
  if (!problem.empty()) return value_error(std::move(problem));
  return out;
}

void write_data(JsonWriter& json, const StoredCertificate& content) {
  json.key("data").begin_object();
  json.key("ca.crt").text(base::base64_encode(content.ca));
  json.key("tls.crt").text(base::base64_encode(content.certificate));
  json.key("tls.key").text(base::base64_encode(content.key));
  json.end_object();
}

/// False when nothing is needed: that text is no bundle.
bool contains(const std::vector<std::string>& bundle, const std::vector<std::string>& needed) {
  return !needed.empty() && std::all_of(needed.begin(), needed.end(), [&](const std::string& certificate) {
    return std::find(bundle.begin(), bundle.end(), certificate) != bundle.end();
  });
}

}  // namespace

Result<StoredCertificate> parse_secret(const std::string& json) {
  bool decoded = true;
  auto parsed = parse<StoredCertificate>(json, [&](const JsonReader& root) {
    const JsonReader data = root.get("data");
    const auto bytes = [&](const char* key) {
      auto text = base::base64_decode(data.get(key).text());
      decoded = decoded && text.has_value();
      return std::move(text).value_or(std::string());
    };
    StoredCertificate out;
    out.resource_version = root.get("metadata").get("resourceVersion").text();
    out.certificate = bytes("tls.crt");
    out.key = bytes("tls.key");
    out.ca = bytes("ca.crt");
    return out;
  });
  if (!decoded) return value_error("data: is not base64");
  return parsed;
}

std::string secret_json(const std::string& ns, const std::string& name, const StoredCertificate& content) {
  JsonWriter json;
  json.begin_object().key("apiVersion").text("v1").key("kind").text("Secret");
  json.key("metadata").begin_object().key("name").text(name).key("namespace").text(ns).end_object();
  json.key("type").text("kubernetes.io/tls");
  write_data(json, content);
  return json.end_object().take();
}

std::string secret_patch(const StoredCertificate& content) {
  JsonWriter json;
  json.begin_object().key("metadata").begin_object();
  json.key("resourceVersion").text(content.resource_version).end_object();
  write_data(json, content);
  return json.end_object().take();
}

Result<std::vector<std::string>> webhooks_without(const std::string& json, const std::string& ca, std::int64_t now) {
  return parse<std::vector<std::string>>(json, [&](const JsonReader& root) {
    const auto needed = net::split_bundle(ca, now);
    std::vector<std::string> names;
    for (const JsonReader& webhook : root.get("webhooks").items()) {
      const auto bundle = base::base64_decode(webhook.get("clientConfig").get("caBundle").text());
      if (!bundle || (*bundle != ca && !contains(net::split_bundle(*bundle, now), needed)))
        names.push_back(webhook.get("name").text());
    }
    return names;
  });
}

std::string bundle_patch(const std::vector<std::string>& webhooks, const std::string& ca) {
  const std::string bundle = base::base64_encode(ca);
  JsonWriter json;
  json.begin_object().key("webhooks").begin_list();
  for (const std::string& name : webhooks) {
    json.begin_object().key("name").text(name);
    json.key("clientConfig").begin_object().key("caBundle").text(bundle).end_object().end_object();
  }
  return json.end_list().end_object().take();
}

}  // namespace warmroute::webhook
