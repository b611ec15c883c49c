#pragma once
// The spec of an object as compact JSON in the field order of the Go types, defaults applied: what the debug pages
// show. Go's encoder escapes <, > and & too.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/resources.hpp"

namespace warmroute::config::detail {

class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_list() { return open('['); }
  JsonWriter& end_list() { return close(']'); }
  JsonWriter& key(std::string_view name);
  JsonWriter& text(std::string_view value);
  JsonWriter& number(std::int64_t value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void quote(std::string_view value);
  std::string out_;
  bool first_ = true;
};

[[nodiscard]] std::string route_spec_json(const model::ModelRoute& route);

/// What the document says beyond the model's values.
struct TrafficText {
  bool present = false;
  bool retry = false;
  std::optional<std::chrono::nanoseconds> timeout, retry_interval;
  std::optional<std::int32_t> attempts;
};
[[nodiscard]] std::string server_spec_json(const model::ModelServer& server, const TrafficText& traffic);

}  // namespace warmroute::config::detail
