#pragma once
// Text of a configuration (YAML or JSON) as a Value, for tests that start below the configuration reader.

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <string>

#include "warmroute/plugin_registry.hpp"

namespace warmroute::test {

inline Value to_value(const YAML::Node& node) {
  if (!node || node.IsNull()) return {};
  if (node.IsSequence()) {
    Value::List list;
    for (const auto& item : node) list.push_back(to_value(item));
    return {std::move(list)};
  }
  if (node.IsMap()) {
    Value::Map map;
    for (const auto& item : node) map.emplace_back(item.first.as<std::string>(), to_value(item.second));
    return {std::move(map)};
  }
  if (node.Tag() == "!") return {node.Scalar()};  // quoted
  std::int64_t whole = 0;
  double number = 0;
  bool flag = false;
  if (YAML::convert<std::int64_t>::decode(node, whole)) return {whole};
  if (YAML::convert<double>::decode(node, number)) return {number};
  if (YAML::convert<bool>::decode(node, flag)) return {flag};
  return {node.Scalar()};
}

inline Args to_args(const std::string& text) { return Args(to_value(YAML::Load(text))); }

}  // namespace warmroute::test
