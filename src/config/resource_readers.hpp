#pragma once
// The readers of the single kinds behind resource_docs.hpp. Each reports what is wrong through its node; what it
// returns counts only when nothing was wrong.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/resource_docs.hpp"
#include "config/yaml_reader.hpp"
#include "model/resources.hpp"

namespace warmroute::config::detail {

/// metadata of any object, without position.
[[nodiscard]] model::ObjectMeta read_meta(const YamlNode& document);

/// \param spec the `spec` node, already required by the caller.
[[nodiscard]] model::ModelRoute read_model_route(const YamlNode& spec, model::ObjectMeta meta);
[[nodiscard]] model::ModelServer read_model_server(const YamlNode& spec, model::ObjectMeta meta);
[[nodiscard]] StaticPods read_static_pods(const YamlNode& spec, model::ObjectMeta meta);
/// \param document the whole Pod: spec and status may both be missing.
[[nodiscard]] model::Pod read_pod(const YamlNode& document, model::ObjectMeta meta);

/// As parent.required(key), but silent when the parent itself is missing: that was reported already.
[[nodiscard]] YamlNode required(const YamlNode& parent, std::string_view key);
/// A string that must be one of a few, with the API server's message; nullopt when absent or wrong.
[[nodiscard]] std::optional<std::string> read_enum(const YamlNode& node,
                                                   std::initializer_list<std::string_view> values);
/// A string of at most `limit` characters (code points).
[[nodiscard]] std::optional<std::string> read_text(const YamlNode& node, std::size_t limit);
/// Labels whose values Kubernetes would accept in a selector.
[[nodiscard]] model::Labels read_selector(const YamlNode& node);

/// RFC 1123: labels of lower-case letters, digits and '-', joined by dots; at most 253 characters.
[[nodiscard]] bool is_dns_subdomain(std::string_view text) noexcept;
/// One such label, at most 63 characters.
[[nodiscard]] bool is_dns_label(std::string_view text) noexcept;
/// A textual IPv4 or IPv6 address without brackets or zone.
[[nodiscard]] bool is_address(const std::string& text) noexcept;

}  // namespace warmroute::config::detail
