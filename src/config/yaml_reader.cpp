#include "config/yaml_reader.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "config/yaml_scalar.hpp"
#include "config/yaml_tree.hpp"

namespace warmroute::config {
namespace {

using detail::YamlContext;
using detail::YamlRaw;
using Kind = YamlNode::Kind;
using Severity = Diagnostic::Severity;

YamlScalar resolve(const YamlRaw& raw) {
  if (raw.kind == Kind::null) return {};
  return raw.plain ? resolve_plain_scalar(raw.text) : YamlScalar{raw.text};
}

std::string child_path(const std::string& parent, std::string_view key) {
  const bool simple = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
  if (simple) return parent.empty() ? std::string(key) : parent + "." + std::string(key);
  return parent + "[\"" + std::string(key) + "\"]";
}

std::string item_path(const std::string& parent, std::size_t index) {
  return parent + "[" + std::to_string(index) + "]";
}

/// Cut at a character's start, control characters replaced, so that a value cannot forge lines of a log.
std::string shown(std::string_view text) {
  constexpr std::size_t limit = 48;
  std::size_t length = std::min(text.size(), limit);
  while (length < text.size() && length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0U) == 0x80) --length;
  std::string out(text.substr(0, length));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }, '?');
  if (length < text.size()) out += "...";
  return out;
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_json_scalar(std::string& out, const YamlScalar& scalar) {
  struct Visitor {
    std::string& out;
    void operator()(std::monostate) const { out += "null"; }
    void operator()(bool value) const { out += value ? "true" : "false"; }
    void operator()(std::int64_t value) const { out += std::to_string(value); }
    void operator()(std::uint64_t value) const { out += std::to_string(value); }
    void operator()(double value) const { out += std::isfinite(value) ? fmt::format("{}", value) : "null"; }
    void operator()(const std::string& value) const { append_json_string(out, value); }
  };
  std::visit(Visitor{out}, scalar.value);
}

/// Recursion is bounded by the tree's height, the total by the budget. false: budget used up.
bool append_json(std::string& out, const YamlRaw& raw, YamlContext& context) {
  if (++context.expanded > context.limits.expanded) return false;
  if (raw.kind == Kind::list) {
    out += '[';
    for (std::size_t i = 0; i < raw.items.size(); ++i) {
      if (i > 0) out += ',';
      if (!append_json(out, *raw.items[i], context)) return false;
    }
    out += ']';
    return true;
  }
  if (raw.kind != Kind::map) {
    append_json_scalar(out, resolve(raw));
    return true;
  }
  std::unordered_map<std::string_view, std::size_t> last;
  if (!raw.duplicates.empty()) {
    for (std::size_t i = 0; i < raw.entries.size(); ++i) last[raw.entries[i].key] = i;
  }
  out += '{';
  bool first = true;
  for (std::size_t i = 0; i < raw.entries.size(); ++i) {
    if (!last.empty() && last[raw.entries[i].key] != i) continue;
    if (!first) out += ',';
    first = false;
    append_json_string(out, raw.entries[i].key);
    out += ':';
    if (!append_json(out, *raw.entries[i].value, context)) return false;
  }
  out += '}';
  return true;
}

bool make_value(Value& out, const YamlRaw& raw, YamlContext& context) {
  if (++context.expanded > context.limits.expanded) return false;
  if (raw.kind == Kind::list) {
    auto& list = out.data.emplace<Value::List>(raw.items.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!make_value(list[i], *raw.items[i], context)) return false;
    }
    return true;
  }
  if (raw.kind == Kind::map) {
    auto& map = out.data.emplace<Value::Map>(raw.entries.size());
    for (std::size_t i = 0; i < map.size(); ++i) {
      map[i].first = raw.entries[i].key;
      if (!make_value(map[i].second, *raw.entries[i].value, context)) return false;
    }
    return true;
  }
  YamlScalar scalar = resolve(raw);
  if (scalar.leading_zero) {
    context.report(Severity::warning, raw.line, raw.column, {}, shown(raw.text) + " is read as a decimal number");
  }
  std::visit(
      [&out](auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::uint64_t>) {
          out.data = static_cast<double>(value);
        } else {
          out.data = std::move(value);
        }
      },
      scalar.value);
  return true;
}

void consume(YamlRaw& raw) {
  if (raw.consumed) return;
  raw.consumed = true;
  for (YamlRaw* item : raw.items) consume(*item);
  for (YamlRaw::Entry& entry : raw.entries) consume(*entry.value);
}

void report_duplicates(YamlRaw& raw, const std::string& path, const YamlContext& context) {
  if (raw.duplicates_reported) return;
  raw.duplicates_reported = true;
  for (const YamlRaw::Duplicate& duplicate : raw.duplicates) {
    context.report(Severity::error, duplicate.line, duplicate.column, child_path(path, duplicate.key),
                   fmt::format("key is already there in line {}", duplicate.first_line));
  }
}

void walk_unread(YamlRaw& raw, const std::string& path, const YamlContext& context) {
  if (raw.consumed || raw.walked) return;
  raw.walked = true;
  for (std::size_t i = 0; i < raw.items.size(); ++i) walk_unread(*raw.items[i], item_path(path, i), context);
  if (raw.kind != Kind::map) return;
  report_duplicates(raw, path, context);
  for (const YamlRaw::Entry& entry : raw.entries) {
    const std::string at = child_path(path, entry.key);
    // What an alias refers to may stand under any key and is judged where it is used.
    if (context.read[entry.read_flag] || entry.value->aliased) {
      walk_unread(*entry.value, at, context);
    } else {
      context.report(Severity::warning, entry.line, entry.column, at, "unknown field");
    }
  }
}

}  // namespace

Kind YamlNode::kind() const noexcept { return raw_ == nullptr ? Kind::absent : raw_->kind; }

const std::string& YamlNode::file() const noexcept {
  static const std::string none;
  return context_ == nullptr ? none : context_->file;
}

void YamlNode::report(Severity severity, std::string message) const {
  if (context_ != nullptr) context_->report(severity, line_, column_, path_, std::move(message));
}
void YamlNode::error(std::string message) const { report(Severity::error, std::move(message)); }
void YamlNode::warning(std::string message) const { report(Severity::warning, std::move(message)); }

std::string YamlNode::describe() const {
  switch (kind()) {
    case Kind::absent:
      return "nothing";
    case Kind::null:
      return "null";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a mapping";
    case Kind::scalar:
      break;
  }
  const YamlScalar scalar = resolve(*raw_);
  if (std::holds_alternative<std::string>(scalar.value)) return "the string \"" + shown(raw_->text) + "\"";
  if (std::holds_alternative<bool>(scalar.value)) return shown(raw_->text);
  return "the number " + shown(raw_->text);
}

void YamlNode::wrong_type(const char* wanted) const { error(fmt::format("must be {}, got {}", wanted, describe())); }

bool YamlNode::expect(Kind wanted, const char* what) const {
  if (kind() == wanted) {
    if (wanted == Kind::map) report_duplicates(*raw_, path_, *context_);
    return true;
  }
  if (raw_ != nullptr && kind() != Kind::null && !std::exchange(raw_->wrong_kind_reported, true)) wrong_type(what);
  return false;
}

YamlNode YamlNode::child(YamlRaw* raw, std::string path) const {
  return YamlNode(context_, raw, std::move(path), raw->line, raw->column);
}

YamlNode YamlNode::get(std::string_view key) const {
  if (expect(Kind::map, "a mapping")) {
    YamlRaw* first = nullptr;
    for (const YamlRaw::Entry& entry : raw_->entries) {
      if (entry.key != key) continue;
      context_->read[entry.read_flag] = true;
      if (first == nullptr) first = entry.value;
      if (raw_->duplicates.empty()) break;
    }
    if (first != nullptr) return child(first, child_path(path_, key));
  }
  return YamlNode(context_, nullptr, child_path(path_, key), line_, column_);
}

YamlNode YamlNode::required(std::string_view key) const {
  YamlNode node = get(key);
  if (!node && (raw_ == nullptr || kind() == Kind::null || kind() == Kind::map)) node.error("is required");
  return node;
}

bool YamlNode::has(std::string_view key) const {
  if (kind() != Kind::map) return false;
  return std::any_of(raw_->entries.begin(), raw_->entries.end(),
                     [key](const YamlRaw::Entry& entry) { return entry.key == key; });
}

std::vector<std::pair<std::string, YamlNode>> YamlNode::entries() const {
  std::vector<std::pair<std::string, YamlNode>> out;
  if (!expect(Kind::map, "a mapping")) return out;
  out.reserve(raw_->entries.size());
  for (const YamlRaw::Entry& entry : raw_->entries) {
    context_->read[entry.read_flag] = true;
    out.emplace_back(entry.key, child(entry.value, child_path(path_, entry.key)));
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> YamlNode::string_map() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (auto& [key, node] : entries()) {
    if (node.is_null()) {
      out.emplace_back(std::move(key), std::string());  // as the API server reads it
    } else if (auto text = node.strict_text()) {
      out.emplace_back(std::move(key), *std::move(text));
    }
  }
  return out;
}

std::vector<YamlNode> YamlNode::items() const {
  std::vector<YamlNode> out;
  if (!expect(Kind::list, "a list")) return out;
  out.reserve(raw_->items.size());
  for (std::size_t i = 0; i < raw_->items.size(); ++i) out.push_back(child(raw_->items[i], item_path(path_, i)));
  return out;
}

std::vector<std::string> YamlNode::string_list() const {
  std::vector<std::string> out;
  for (const YamlNode& node : items()) {
    if (node.is_null()) {
      out.emplace_back();
    } else if (auto text = node.strict_text()) {
      out.push_back(*std::move(text));
    }
  }
  return out;
}

std::optional<std::string> YamlNode::strict_text() const {
  if (!*this) return std::nullopt;
  if (is_scalar() && std::holds_alternative<std::string>(resolve(*raw_).value)) return raw_->text;
  wrong_type("a string");
  return std::nullopt;
}

std::optional<std::string> YamlNode::text() const {
  if (!*this) return std::nullopt;
  if (is_scalar()) return raw_->text;
  wrong_type("a string");
  return std::nullopt;
}

std::optional<double> YamlNode::number() const {
  if (!*this) return std::nullopt;
  if (is_scalar()) {
    const YamlScalar scalar = resolve(*raw_);
    if (scalar.leading_zero) warning(fmt::format("{} is read as a decimal number", shown(raw_->text)));
    if (const auto* whole = std::get_if<std::int64_t>(&scalar.value)) return static_cast<double>(*whole);
    if (const auto* big = std::get_if<std::uint64_t>(&scalar.value)) return static_cast<double>(*big);
    if (const auto* real = std::get_if<double>(&scalar.value)) return *real;
  }
  wrong_type("a number");
  return std::nullopt;
}

std::optional<std::int64_t> YamlNode::truncated_integer() const {
  if (is_scalar()) {
    const YamlScalar scalar = resolve(*raw_);
    if (const auto* whole = std::get_if<std::int64_t>(&scalar.value)) {
      if (scalar.leading_zero) warning(fmt::format("{} is read as {}", shown(raw_->text), *whole));
      return *whole;
    }
    const auto* real = std::get_if<double>(&scalar.value);
    if (std::holds_alternative<std::uint64_t>(scalar.value) || (real != nullptr && !std::isnan(*real))) {
      // 2^63 itself is no int64; every smaller double is. NaN is told as a wrong type below.
      if (real != nullptr && *real < 0x1p63 && *real >= -0x1p63) return static_cast<std::int64_t>(*real);
      error(fmt::format("must be an integer of 64 bits, got {}", shown(raw_->text)));
      return std::nullopt;
    }
  }
  if (*this) wrong_type("an integer");
  return std::nullopt;
}

std::optional<std::int64_t> YamlNode::integer(std::int64_t min, std::int64_t max) const {
  if (is_scalar()) {
    const YamlScalar scalar = resolve(*raw_);
    if (const auto* real = std::get_if<double>(&scalar.value); real != nullptr && std::trunc(*real) != *real) {
      wrong_type("an integer");
      return std::nullopt;
    }
  }
  const auto value = truncated_integer();
  if (!value || (*value >= min && *value <= max)) return value;
  constexpr auto top = std::numeric_limits<std::int64_t>::max();
  constexpr auto bottom = std::numeric_limits<std::int64_t>::min();
  if (max == top) {
    error(fmt::format("must be at least {}, got {}", min, *value));
  } else if (min == bottom) {
    error(fmt::format("must be at most {}, got {}", max, *value));
  } else {
    error(fmt::format("must be between {} and {}, got {}", min, max, *value));
  }
  return std::nullopt;
}

std::optional<bool> YamlNode::boolean() const {
  if (!*this) return std::nullopt;
  bool value = false;
  if (is_scalar() && raw_->plain && boolean_word(raw_->text, value)) return value;
  wrong_type("true or false");
  return std::nullopt;
}

Value YamlNode::to_value() const {
  Value value;
  if (raw_ == nullptr) return value;
  consume(*raw_);
  if (!make_value(value, *raw_, *context_)) {
    error("too many values once aliases are expanded");
    return Value{};
  }
  return value;
}

std::string YamlNode::to_json() const {
  std::string out;
  if (raw_ == nullptr) return "null";
  if (!append_json(out, *raw_, *context_)) {
    error("too many values once aliases are expanded");
    return "null";
  }
  return out;
}

void YamlNode::ignore() const {
  if (raw_ != nullptr) consume(*raw_);
}

YamlFile YamlFile::parse(std::string_view text, std::string file_name, Diagnostics& diagnostics,
                         const YamlLimits& limits) {
  YamlFile file;
  file.context_ = std::make_shared<YamlContext>();
  file.context_->file = std::move(file_name);
  file.context_->limits = limits;
  file.context_->diagnostics = &diagnostics;
  for (YamlRaw* root : detail::build_yaml_tree(text, *file.context_, file.valid_)) {
    file.documents_.push_back(YamlNode(file.context_, root, {}, root->line, root->column));
  }
  return file;
}

void YamlFile::report_unread() const {
  // Outer merges were added last and decide about inner ones.
  for (auto pair = context_->shadowed.rbegin(); pair != context_->shadowed.rend(); ++pair) {
    if (context_->read[pair->second]) context_->read[pair->first] = true;
  }
  for (const YamlNode& document : documents_) walk_unread(*document.raw_, {}, *context_);
}

}  // namespace warmroute::config
