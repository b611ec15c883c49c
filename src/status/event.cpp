#include "status/event.hpp"

#include <spdlog/fmt/fmt.h>

#include "config/resource_json.hpp"

namespace warmroute::status {
namespace {

constexpr std::size_t longest_name = 253, longest_instance = 128, longest_note = 1024;

/// Cut at a character of UTF-8.
std::string cut(std::string text, std::size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0U) == 0x80U) --bytes;
  text.resize(bytes);
  return text;
}

}  // namespace

std::string event_json(const Verdict& about, const Event& event, Moment now, std::uint64_t number) {
  const auto moment = static_cast<std::uint64_t>(now.time_since_epoch().count());
  const std::string tail = fmt::format(".{:x}", moment * 16 + number % 16);
  config::detail::JsonWriter json;
  json.begin_object().key("apiVersion").text("events.k8s.io/v1").key("kind").text("Event");
  json.key("metadata").begin_object();
  json.key("name").text(cut(about.name, longest_name - tail.size()) + tail).key("namespace").text(about.ns);
  json.end_object();
  json.key("eventTime").text(to_micro_time(now));
  json.key("reportingController").text("warmroute.dev/router");
  json.key("reportingInstance").text(cut(event.instance, longest_instance));
  json.key("action").text(event.action).key("reason").text(event.reason);
  json.key("type").text(event.warning ? "Warning" : "Normal");
  json.key("note").text(cut(event.note, longest_note));
  json.key("regarding").begin_object();
  json.key("apiVersion").text("networking.serving.volcano.sh/v1alpha1").key("kind").text(name(about.kind));
  json.key("namespace").text(about.ns).key("name").text(about.name);
  if (!about.uid.empty()) json.key("uid").text(about.uid);
  return json.end_object().end_object().take();
}

}  // namespace warmroute::status
