#include "config/json_reader.hpp"

#include <spdlog/fmt/fmt.h>

namespace warmroute::config {
namespace {

namespace dom = simdjson::dom;

std::optional<dom::element> unless_null(dom::element value) {
  if (value.is_null()) return std::nullopt;
  return value;
}

const char* kind_of(dom::element value) {
  switch (value.type()) {
    case dom::element_type::OBJECT:
      return "an object";
    case dom::element_type::ARRAY:
      return "a list";
    case dom::element_type::STRING:
      return "a string";
    case dom::element_type::BOOL:
      return "a boolean";
    case dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

}  // namespace

void JsonReader::wrong(const char* expected) const {
  if (!problem_->empty()) return;
  *problem_ = fmt::format("{}{}expected {}, found {}", path_, path_.empty() ? "" : ": ", expected, kind_of(*value_));
}

JsonReader JsonReader::get(std::string_view key) const {
  std::string path = path_;
  if (!path.empty()) path += '.';
  path += key;
  std::optional<dom::element> found;
  dom::object object;
  if (value_) {
    if (value_->get(object) != simdjson::SUCCESS) {
      wrong("an object");
    } else {
      for (const auto member : object)
        if (member.key == key) found = unless_null(member.value);
    }
  }
  return {found, std::move(path), problem_};
}

std::vector<JsonReader> JsonReader::items() const {
  std::vector<JsonReader> out;
  dom::array list;
  if (!value_) return out;
  if (value_->get(list) != simdjson::SUCCESS) {
    wrong("a list");
    return out;
  }
  for (const dom::element item : list)
    out.push_back({unless_null(item), fmt::format("{}[{}]", path_, out.size()), problem_});
  return out;
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::entries() const {
  std::vector<std::pair<std::string, JsonReader>> out;
  dom::object object;
  if (!value_) return out;
  if (value_->get(object) != simdjson::SUCCESS) {
    wrong("an object");
    return out;
  }
  for (const auto member : object)
    out.emplace_back(std::string(member.key),
                     JsonReader(unless_null(member.value), fmt::format("{}[{}]", path_, member.key), problem_));
  return out;
}

std::optional<std::string> JsonReader::optional_text() const {
  std::string_view text;
  if (!value_) return std::nullopt;
  if (value_->get(text) == simdjson::SUCCESS) return std::string(text);
  wrong("a string");
  return std::nullopt;
}

std::optional<std::uint32_t> JsonReader::number() const {
  std::uint64_t value = 0;
  if (!value_) return std::nullopt;
  if (value_->get(value) == simdjson::SUCCESS && value <= 0xFFFFFFFFU) return static_cast<std::uint32_t>(value);
  wrong("an integer of 32 bits that is not negative");
  return std::nullopt;
}

bool JsonReader::boolean() const {
  bool value = false;
  if (value_ && value_->get(value) != simdjson::SUCCESS) wrong("a boolean");
  return value;
}

}  // namespace warmroute::config
