#include <algorithm>
#include <array>
#include <map>

#include "webhook/base_url.hpp"
#include "webhook/rules.hpp"

namespace warmroute::webhook {
namespace {

bool is_token(std::string_view name) noexcept {
  constexpr std::string_view marks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           marks.find(c) != std::string_view::npos;
  });
}

/// Headers that the router sets itself, or that would change the framing (spec 16.3).
bool is_reserved(std::string_view name) {
  constexpr std::array<std::string_view, 13> reserved{"authorization",
                                                      "connection",
                                                      "content-length",
                                                      "cookie",
                                                      "host",
                                                      "keep-alive",
                                                      "proxy-authorization",
                                                      "proxy-connection",
                                                      "te",
                                                      "trailer",
                                                      "transfer-encoding",
                                                      "upgrade",
                                                      "x-api-key"};
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return std::find(reserved.begin(), reserved.end(), lower) != reserved.end();
}

void check_one_of(const JsonReader& field, std::string_view first, std::string_view second, FieldErrors& errors) {
  const std::string value = field.text();
  if (!value.empty() && value != first && value != second) errors.not_supported(field.path(), value, {first, second});
}

void check_header(const JsonReader& field, std::string_view name, FieldErrors& errors) {
  const std::string value = field.text();
  if (!is_token(name)) return errors.invalid(field.path(), go_quoted(name), "header name is invalid");
  if (is_reserved(name))
    errors.invalid(field.path(), go_quoted(name), "header is reserved and cannot be configured as a static header");
  if (value.find_first_of("\r\n") != std::string::npos)
    errors.invalid(field.path(), go_quoted(value), "header value must not contain CR or LF");
}

void check_auth(const JsonReader& auth, FieldErrors& errors) {
  if (!auth) return;
  check_one_of(auth.get("scheme"), "Bearer", "APIKey", errors);
  const JsonReader secret = auth.get("secretRef");
  const JsonReader name = secret.get("name"), key = secret.get("key"), optional = secret.get("optional");
  if (name.text().empty()) errors.required(name.path(), "secret name is required");
  if (key.text().empty()) errors.required(key.path(), "secret key is required");
  if (optional.boolean()) errors.invalid(optional.path(), "true", "optional must be false or unset");
}

}  // namespace

void check_external_model_provider(const JsonReader& object, FieldErrors& errors) {
  const JsonReader spec = object.get("spec");
  check_one_of(spec.get("providerType"), "OpenAI", "Anthropic", errors);
  const JsonReader url = spec.get("baseURL");
  const std::string text = url.text();
  switch (judge_base_url(text)) {
    case BaseUrl::not_https:
      errors.invalid(url.path(), go_quoted(text), "baseURL must use https");
      break;
    case BaseUrl::has_extras:
      errors.invalid(url.path(), go_quoted(text), "baseURL must not contain userinfo, query, or fragment");
      break;
    case BaseUrl::good:
      break;
  }
  std::map<std::string, JsonReader> headers;
  for (const auto& [name, value] : spec.get("headers").entries()) headers.insert_or_assign(name, value);
  for (const auto& [name, value] : headers) check_header(value, name, errors);
  check_auth(spec.get("auth"), errors);
}

}  // namespace warmroute::webhook
