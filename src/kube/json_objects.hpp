#pragma once
// What lists and watches are made of. Objects stay JSON text here; who wants them reads them. No I/O, nothing throws.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "warmroute/result.hpp"

namespace warmroute::kube {

struct ListPage {
  std::string resource_version;
  std::string next;  ///< `continue` for the next page; empty: this was the last
  std::vector<std::string> items;
};
/// Errors: no JSON, or no list.
[[nodiscard]] Result<ListPage> parse_list(std::string_view body);

enum class EventType : std::uint8_t { added, modified, deleted, bookmark, error, unknown };
struct WatchEvent {
  EventType type = EventType::unknown;
  std::string object;
};
[[nodiscard]] Result<WatchEvent> parse_event(std::string_view line);

/// What tells one object, and one version of it, from another.
struct ObjectHead {
  std::string ns, name, uid, resource_version;
  [[nodiscard]] std::string key() const { return ns + "/" + name; }
};
/// nullopt: no object, or one without metadata.
[[nodiscard]] std::optional<ObjectHead> parse_object_head(std::string_view object);

/// The Status object of an ERROR event.
struct ErrorStatus {
  int code = 0;
  std::string reason, message;
  std::optional<std::chrono::seconds> retry_after;
};
[[nodiscard]] ErrorStatus parse_error_status(std::string_view object);

/// resourceVersions count up in practice, and from Kubernetes 1.35 on by contract. 0: not a number, do not compare.
[[nodiscard]] std::uint64_t version_number(std::string_view resource_version) noexcept;

}  // namespace warmroute::kube
