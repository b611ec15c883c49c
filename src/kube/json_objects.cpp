#include "kube/json_objects.hpp"

#include <simdjson.h>

#include <charconv>

namespace warmroute::kube {
namespace {

namespace dom = simdjson::dom;

Error broken(const char* what, simdjson::error_code error) {
  return Error{Errc::bad_json, Source::internal, Retry::never,
               std::string(what) + ": " + simdjson::error_message(error)};
}

std::string text_of(simdjson::simdjson_result<dom::element> element) {
  std::string_view text;
  return element.get(text) == simdjson::SUCCESS ? std::string(text) : std::string();
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

// The whole text is checked in both: half a list or half an event must not count. (The on-demand parser would read on
// behind an error, and in simdjson 3.0 through a null pointer.)

Result<ListPage> parse_list(std::string_view body) {
  dom::parser parser;
  dom::element root;
  if (const auto error = parser.parse(body.data(), body.size()).get(root); error != simdjson::SUCCESS)
    return broken("list", error);
  ListPage page;
  page.resource_version = text_of(root["metadata"]["resourceVersion"]);
  page.next = text_of(root["metadata"]["continue"]);
  if (page.resource_version.empty()) return broken("list without metadata.resourceVersion", simdjson::NO_SUCH_FIELD);
  dom::element items;
  if (const auto error = root["items"].get(items); error != simdjson::SUCCESS)
    return broken("list without items", error);
  if (items.is_null()) return page;  // Go's empty list
  if (!items.is_array()) return broken("items", simdjson::INCORRECT_TYPE);
  for (const dom::element item : dom::array(items)) {
    if (!item.is_object()) return broken("items", simdjson::INCORRECT_TYPE);
    page.items.push_back(simdjson::minify(item));
  }
  return page;
}

Result<WatchEvent> parse_event(std::string_view line) {
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
