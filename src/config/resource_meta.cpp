// metadata, and the checks that several kinds share.

#include <arpa/inet.h>

#include <algorithm>

#include "config/name_shapes.hpp"
#include "config/resource_readers.hpp"
#include "config/rfc3339.hpp"

namespace warmroute::config::detail {
namespace {

bool is_label_text(std::string_view text) noexcept {
  return text.size() <= max_dns_label && has_label_text_shape(text);
}

bool is_label_key(std::string_view key) noexcept {
  const std::size_t slash = key.find('/');
  if (slash == std::string_view::npos) return is_label_text(key);
  return is_dns_subdomain(key.substr(0, slash)) && is_label_text(key.substr(slash + 1));
}

}  // namespace

bool is_dns_label(std::string_view text) noexcept { return text.size() <= max_dns_label && has_dns_label_shape(text); }

bool is_dns_subdomain(std::string_view text) noexcept {
  return text.size() <= max_dns_subdomain && has_dns_subdomain_shape(text);
}

bool is_address(const std::string& text) noexcept {
  in6_addr buffer{};
  return inet_pton(AF_INET, text.c_str(), &buffer) == 1 || inet_pton(AF_INET6, text.c_str(), &buffer) == 1;
}

YamlNode required(const YamlNode& parent, std::string_view key) { return parent ? parent.required(key) : YamlNode(); }

std::optional<std::string> read_enum(const YamlNode& node, std::initializer_list<std::string_view> values) {
  auto text = node.strict_text();
  if (!text) return std::nullopt;
  if (std::find(values.begin(), values.end(), *text) != values.end()) return text;
  std::string message = "Unsupported value: " + node.describe() + ": supported values: ";
  const char* separator = "";
  for (const std::string_view value : values) {
    message.append(separator).append("\"").append(value).append("\"");
    separator = ", ";
  }
  node.error(std::move(message));
  return std::nullopt;
}

std::optional<std::string> read_text(const YamlNode& node, std::size_t limit) {
  auto text = node.strict_text();
  if (!text) return std::nullopt;
  const auto characters = std::count_if(text->begin(), text->end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // all but UTF-8 continuation bytes
  });
  if (static_cast<std::size_t>(characters) > limit) {
    node.error("Too long: must have at most " + std::to_string(limit) + " characters");
  }
  return text;
}

model::Labels read_selector(const YamlNode& node) {
  model::Labels labels;
  for (auto& [key, value] : node.string_map()) {
    const bool good = is_label_key(key) && (value.empty() || is_label_text(value));
    if (!good) node.error("invalid selector: \"" + key + "=" + value + "\" is not a label that Kubernetes accepts");
    labels.emplace(std::move(key), std::move(value));
  }
  return labels;
}

model::ObjectMeta read_meta(const YamlNode& document) {
  model::ObjectMeta meta;
  const YamlNode node = document.required("metadata");
  const YamlNode name = required(node, "name");
  const auto text_name = name.strict_text();
  meta.name = text_name.value_or("");
  if (text_name && !is_dns_subdomain(meta.name)) {
    name.error("must be a lower-case DNS name (letters, digits, '-' and '.'), but is " + name.describe());
  }
  const YamlNode ns = node.get("namespace");
  if (auto text = ns.strict_text(); text && !text->empty()) {
    if (!is_dns_label(*text))
      ns.error("must be a lower-case DNS label (letters, digits, '-'), but is " + ns.describe());
    meta.ns = std::move(*text);
  }
  meta.uid = node.get("uid").strict_text().value_or("");
  meta.resource_version = node.get("resourceVersion").text().value_or("");
  for (auto& [key, value] : node.get("labels").string_map()) meta.labels.emplace(std::move(key), std::move(value));
  const YamlNode created = node.get("creationTimestamp");
  if (const auto text = created.strict_text()) {
    meta.creation_timestamp = parse_rfc3339(*text);
    if (!meta.creation_timestamp) created.error("must be a time such as 2026-01-02T03:04:05Z");
  }
  const YamlNode deleted = node.get("deletionTimestamp");
  meta.deletion_timestamp = static_cast<bool>(deleted);
  deleted.ignore();
  for (const char* known : {"annotations", "deletionGracePeriodSeconds", "finalizers", "generateName", "generation",
                            "managedFields", "ownerReferences", "selfLink"}) {
    node.get(known).ignore();
  }
  return meta;
}

}  // namespace warmroute::config::detail
