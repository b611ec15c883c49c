#pragma once
// A value without a type of its own: what configurations are made of, and what explanations are told in.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace warmroute {

/// null, boolean, integer, fraction, string, list or mapping.
struct Value {
  using List = std::vector<Value>;
  using Map = std::vector<std::pair<std::string, Value>>;  ///< in the order given
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Map> data;

  [[nodiscard]] bool is_null() const noexcept { return std::holds_alternative<std::monostate>(data); }
  [[nodiscard]] std::string_view type_name() const noexcept;
};

}  // namespace warmroute
