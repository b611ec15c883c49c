#include "model/label_index.hpp"

#include <algorithm>

namespace warmroute::model {

bool selects(const Labels& selector, const Labels& labels) noexcept {
  if (selector.empty()) return false;
  return std::all_of(selector.begin(), selector.end(), [&](const auto& wanted) {
    const auto found = labels.find(wanted.first);
    return found != labels.end() && found->second == wanted.second;
  });
}

std::string LabelIndex::term(std::string_view ns, std::string_view label, std::string_view value) {
  std::string key;
  key.reserve(ns.size() + label.size() + value.size() + 2);
  key.append(ns).push_back('\0');
  key.append(label).push_back('\0');
  return key.append(value);
}

void LabelIndex::add(const Pod& pod, std::uint32_t number) {
  for (const auto& [label, value] : pod.meta.labels) {
    by_term_[term(pod.meta.ns, label, value)].push_back({&pod, number});
  }
}

std::vector<std::uint32_t> LabelIndex::find(std::string_view ns, const Labels& selector) const {
  // The rarest label decides how many pods are looked at.
  const std::vector<Item>* candidates = nullptr;
  for (const auto& [label, value] : selector) {
    const auto found = by_term_.find(term(ns, label, value));
    if (found == by_term_.end()) return {};
    if (candidates == nullptr || found->second.size() < candidates->size()) candidates = &found->second;
  }
  std::vector<std::uint32_t> numbers;
  if (candidates == nullptr) return numbers;
  for (const Item& item : *candidates) {
    if (selects(selector, item.pod->meta.labels)) numbers.push_back(item.number);
  }
  return numbers;
}

}  // namespace warmroute::model
