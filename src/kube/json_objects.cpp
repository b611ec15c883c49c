#include "kube/json_objects.hpp"

#include <simdjson.h>

#include <charconv>

namespace warmroute::kube {
namespace {

namespace ondemand = simdjson::ondemand;
namespace dom = simdjson::dom;

Error broken(const char* what, simdjson::error_code error) {
  return Error{Errc::bad_json, Source::internal, Retry::never,
               std::string(what) + ": " + simdjson::error_message(error)};
}

std::string text_of(simdjson::simdjson_result<dom::element> element) {
  std::string_view text;
  return element.get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
}

simdjson::error_code read_items(ondemand::document& document, std::vector<std::string>& items) {
  ondemand::value value;
  if (const auto error = document.find_field_unordered("items").get(value); error != simdjson::SUCCESS) return error;
  ondemand::json_type type{};
  if (const auto error = value.type().get(type); error != simdjson::SUCCESS) return error;
  if (type == ondemand::json_type::null) return simdjson::SUCCESS;  // Go's empty list
  ondemand::array array;
  if (const auto error = value.get_array().get(array); error != simdjson::SUCCESS) return error;
  for (auto entry : array) {
    ondemand::object object;
    if (const auto error = entry.get_object().get(object); error != simdjson::SUCCESS) return error;
    std::string_view raw;
    if (const auto error = object.raw_json().get(raw); error != simdjson::SUCCESS) return error;
    items.emplace_back(raw);
  }
  return simdjson::SUCCESS;
}

simdjson::error_code read_list_meta(ondemand::document& document, ListPage& page) {
  ondemand::object meta;
  if (const auto error = document.find_field_unordered("metadata").get_object().get(meta); error != simdjson::SUCCESS)
    return error;
  std::string_view text;
  if (const auto error = meta.find_field_unordered("resourceVersion").get_string().get(text);
      error != simdjson::SUCCESS)
    return error;
  page.resource_version = text;
  if (meta.find_field_unordered("continue").get_string().get(text) == simdjson::SUCCESS) page.next = text;
  return simdjson::SUCCESS;
}

EventType type_of(std::string_view name) {
  if (name == "ADDED") return EventType::added;
  if (name == "MODIFIED") return EventType::modified;
  if (name == "DELETED") return EventType::deleted;
  if (name == "BOOKMARK") return EventType::bookmark;
  if (name == "ERROR") return EventType::error;
  return EventType::unknown;
}

}  // namespace

Result<ListPage> parse_list(std::string_view body) {
  const simdjson::padded_string padded(body);
  ondemand::parser parser;
  ondemand::document document;
  if (const auto error = parser.iterate(padded).get(document); error != simdjson::SUCCESS) return broken("list", error);
  ListPage page;
  if (const auto error = read_list_meta(document, page); error != simdjson::SUCCESS)
    return broken("list without metadata.resourceVersion", error);
  if (const auto error = read_items(document, page.items); error != simdjson::SUCCESS)
    return broken("list without items", error);
  return page;
}

Result<WatchEvent> parse_event(std::string_view line) {
  // The whole line is checked: half an event must not count.
  dom::parser checker;
  dom::element root;
  if (const auto error = checker.parse(line.data(), line.size()).get(root); error != simdjson::SUCCESS)
    return broken("event", error);
  WatchEvent event;
  event.type = type_of(text_of(root["type"]));
  dom::element object;
  if (root["object"].get(object) == simdjson::SUCCESS && object.is_object()) event.object = simdjson::minify(object);
  if (event.object.empty() && event.type != EventType::unknown)
    return Error{Errc::bad_json, Source::internal, Retry::never, "event without an object"};
  return event;
}

std::optional<ObjectHead> parse_object_head(std::string_view object) {
  dom::parser parser;
  dom::element root;
  if (parser.parse(object.data(), object.size()).get(root) != simdjson::SUCCESS) return std::nullopt;
  dom::element meta;
  if (root["metadata"].get(meta) != simdjson::SUCCESS || !meta.is_object()) return std::nullopt;
  ObjectHead head;
  head.ns = text_of(meta["namespace"]);
  if (head.ns.empty()) head.ns = "default";  // as read_meta()
  head.name = text_of(meta["name"]);
  head.uid = text_of(meta["uid"]);
  head.resource_version = text_of(meta["resourceVersion"]);
  return head;
}

ErrorStatus parse_error_status(std::string_view object) {
  ErrorStatus status;
  dom::parser parser;
  dom::element root;
  if (parser.parse(object.data(), object.size()).get(root) != simdjson::SUCCESS) return status;
  std::int64_t number = 0;
  if (root["code"].get(number) == simdjson::SUCCESS && number > 0 && number < 1000)
    status.code = static_cast<int>(number);
  status.reason = text_of(root["reason"]);
  status.message = text_of(root["message"]);
  if (root["details"]["retryAfterSeconds"].get(number) == simdjson::SUCCESS && number > 0 && number < 86400)
    status.retry_after = std::chrono::seconds(number);
  return status;
}

std::uint64_t version_number(std::string_view resource_version) noexcept {
  std::uint64_t number = 0;
  const char* const end = resource_version.data() + resource_version.size();
  const auto parsed = std::from_chars(resource_version.data(), end, number);
  return parsed.ec == std::errc() && parsed.ptr == end ? number : 0;
}

}  // namespace warmroute::kube
