#include "warmroute/plugin_registry.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <stdexcept>

namespace warmroute {
namespace {

bool equal_ignoring_case(std::string_view left, std::string_view right) noexcept {
  const auto lower = [](char letter) { return std::tolower(static_cast<unsigned char>(letter)); };
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

Error wrong_type(std::string_view key, std::string_view wanted, const Value& got, const std::string& origin) {
  std::string text = origin.empty() ? std::string() : origin + ": ";
  text.append("argument ").append(key).append(" must be ").append(wanted).append(", got ").append(got.type_name());
  return value_error(std::move(text));
}

/// Whether `number` is whole and fits; 2^63 itself does not.
bool is_int64(double number) noexcept { return std::trunc(number) == number && number >= -0x1p63 && number < 0x1p63; }

}  // namespace

std::string_view Value::type_name() const noexcept {
  constexpr std::array<std::string_view, 7> names{"null",     "a boolean", "an integer", "a fraction",
                                                  "a string", "a list",    "a mapping"};
  static_assert(names.size() == std::variant_size_v<decltype(data)>);
  return names[data.index()];
}

bool Args::readable() const noexcept { return root_.is_null() || std::holds_alternative<Value::Map>(root_.data); }

const Value* Args::find(std::string_view key) const noexcept {
  const auto* map = std::get_if<Value::Map>(&root_.data);
  if (map == nullptr) return nullptr;
  const Value* found = nullptr;
  for (const auto& [name, value] : *map)
    if (equal_ignoring_case(name, key)) found = &value;
  return found;
}

Result<std::optional<std::int64_t>> Args::integer(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->is_null()) return std::optional<std::int64_t>();
  if (const auto* whole = std::get_if<std::int64_t>(&value->data)) return std::optional(*whole);
  if (const auto* number = std::get_if<double>(&value->data); number != nullptr && is_int64(*number))
    return std::optional(static_cast<std::int64_t>(*number));
  return wrong_type(key, "an integer", *value, origin_);
}

Result<std::optional<double>> Args::number(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->is_null()) return std::optional<double>();
  if (const auto* whole = std::get_if<std::int64_t>(&value->data)) return std::optional(static_cast<double>(*whole));
  if (const auto* number = std::get_if<double>(&value->data)) return std::optional(*number);
  return wrong_type(key, "a number", *value, origin_);
}

Result<std::optional<bool>> Args::boolean(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->is_null()) return std::optional<bool>();
  if (const auto* flag = std::get_if<bool>(&value->data)) return std::optional(*flag);
  return wrong_type(key, "true or false", *value, origin_);
}

Result<std::optional<std::string>> Args::text(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr || value->is_null()) return std::optional<std::string>();
  if (const auto* text = std::get_if<std::string>(&value->data)) return std::optional(*text);
  return wrong_type(key, "a string", *value, origin_);
}

std::vector<std::string> Args::unknown(std::span<const std::string_view> known) const {
  std::vector<std::string> names;
  const auto* map = std::get_if<Value::Map>(&root_.data);
  if (map == nullptr) return names;
  for (const auto& [name, value] : *map) {
    const auto same = [&](std::string_view other) { return equal_ignoring_case(name, other); };
    if (std::none_of(known.begin(), known.end(), same)) names.push_back(name);
  }
  return names;
}

void warn_unknown_args(std::string_view plugin, const Args& args, std::span<const std::string_view> known, Host& host) {
  for (const auto& name : args.unknown(known)) {
    std::string text = args.origin().empty() ? std::string() : args.origin() + ": ";
    text.append(plugin).append(": unknown argument \"").append(name).append("\" is ignored; known: ");
    if (known.empty()) text.append("none");
    for (std::size_t i = 0; i < known.size(); ++i) text.append(i == 0 ? "" : ", ").append(known[i]);
    host.warning(text);
  }
}

void Registry::add(std::string name, Factory factory) {
  const auto [place, added] = factories_.emplace(std::move(name), std::move(factory));
  if (!added) throw std::logic_error("plugin registered twice: " + place->first);
}

Result<std::shared_ptr<Plugin>> Registry::make(std::string_view name, const Args& args, Host& host) const {
  const auto found = factories_.find(name);
  if (found == factories_.end()) {
    std::string text = "unknown plugin \"";
    text.append(name).append("\"; known plugins: ").append(known_names());
    return Error{Errc::unknown_plugin, Source::internal, Retry::never, std::move(text)};
  }
  return found->second(args, host);
}

std::string Registry::known_names() const {
  std::string names;
  for (const auto& [name, factory] : factories_) names.append(names.empty() ? "" : ", ").append(name);
  return names;
}

}  // namespace warmroute
