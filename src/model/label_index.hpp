#pragma once
// Finds the pods that a selector matches without walking all pods for each ModelServer. No I/O.

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/resources.hpp"

namespace warmroute::model {

/// True when `labels` contain every entry of `selector`; an empty selector matches nothing.
[[nodiscard]] bool selects(const Labels& selector, const Labels& labels) noexcept;

/// Holds views: the pods must outlive the index and stay where they are.
class LabelIndex {
 public:
  /// Adds pods[number].
  void add(const Pod& pod, std::uint32_t number);
  /// Numbers of the pods in `ns` that `selector` matches, in the order they were added.
  [[nodiscard]] std::vector<std::uint32_t> find(std::string_view ns, const Labels& selector) const;

 private:
  struct Item {
    const Pod* pod;
    std::uint32_t number;
  };
  [[nodiscard]] static std::string term(std::string_view ns, std::string_view label, std::string_view value);
  std::unordered_map<std::string, std::vector<Item>> by_term_;
};

}  // namespace warmroute::model
