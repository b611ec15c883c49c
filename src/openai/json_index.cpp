#include "openai/json_index.hpp"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "openai/json_string.hpp"

namespace warmroute::openai {
namespace {

constexpr std::size_t smallest_capacity = std::size_t{64} * 1024;
constexpr std::size_t kept_capacity = std::size_t{4} * 1024 * 1024;

bool is_space(char c) noexcept { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

bool is_number(std::string_view raw) noexcept {
  std::size_t i = 0;
  const auto digits = [&] {
    const std::size_t begin = i;
    while (i < raw.size() && is_digit(raw[i])) ++i;
    return i > begin;
  };
  if (i < raw.size() && raw[i] == '-') ++i;
  const std::size_t integer = i;
  if (!digits() || (raw[integer] == '0' && i > integer + 1)) return false;
  if (i < raw.size() && raw[i] == '.') {
    ++i;
    if (!digits()) return false;
  }
  if (i < raw.size() && (raw[i] == 'e' || raw[i] == 'E')) {
    ++i;
    if (i < raw.size() && (raw[i] == '+' || raw[i] == '-')) ++i;
    if (!digits()) return false;
  }
  return i == raw.size();
}

/// Stage 1 says only that there is a control character in a string.
std::size_t find_control_character(std::string_view text) noexcept {
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!inside) {
      inside = c == '"';
    } else if (c == '\\') {
      ++i;
      if (i < text.size() && static_cast<unsigned char>(text[i]) < 0x20) return i;
    } else if (c == '"') {
      inside = false;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      return i;
    }
  }
  return text.size();
}

}  // namespace

struct JsonIndex::Stage1 {
  std::unique_ptr<simdjson::internal::dom_parser_implementation> parser;

  [[nodiscard]] simdjson::error_code run(std::string_view text) {
    if (parser == nullptr || parser->capacity() < text.size()) {
      const std::size_t capacity = std::max(smallest_capacity, text.size() + text.size() / 4);
      parser.reset();
      const auto error = simdjson::get_active_implementation()->create_dom_parser_implementation(capacity, 1, parser);
      if (error != simdjson::SUCCESS) return error;
    }
    return parser->stage1(reinterpret_cast<const std::uint8_t*>(text.data()), text.size(),
                          simdjson::stage1_mode::regular);
  }
};

JsonIndex::JsonIndex() : stage1_(std::make_unique<Stage1>()) {}
JsonIndex::~JsonIndex() = default;

bool JsonIndex::index(std::string_view text) {
  text_ = text;
  starts_ = nullptr;
  count_ = 0;
  if (text.empty()) {
    fault_ = {"the body is empty", 0};
    return false;
  }
  switch (stage1_->run(text)) {
    case simdjson::SUCCESS:
      starts_ = stage1_->parser->structural_indexes.get();
      count_ = stage1_->parser->n_structural_indexes;
      return true;
    case simdjson::EMPTY:
      fault_ = {"the body is blank", 0};
      return false;
    case simdjson::UTF8_ERROR:
      fault_ = {"invalid UTF-8", valid_utf8_length(text)};
      return false;
    case simdjson::UNESCAPED_CHARS:
      fault_ = {"control character in a string", find_control_character(text)};
      return false;
    case simdjson::UNCLOSED_STRING:
      fault_ = {"the body ends inside a string", text.size()};
      return false;
    default:
      fault_ = {"the body is too large to be read", 0};
      return false;
  }
}

void JsonIndex::shrink() {
  if (stage1_->parser != nullptr && stage1_->parser->capacity() > kept_capacity) stage1_->parser.reset();
  if (open_.capacity() > smallest_capacity) std::vector<std::uint64_t>().swap(open_);
  starts_ = nullptr;
  count_ = 0;
}

bool JsonIndex::fail(std::string_view what, Token token) noexcept {
  if (at_end(token)) {
    fault_ = {"the body ends too early", text_.size()};
  } else {
    fault_ = {what, starts_[token]};
  }
  return false;
}

std::string_view JsonIndex::raw(Token token, Token next) const noexcept {
  const std::size_t begin = offset(token);
  std::size_t end = offset(next);
  while (end > begin && is_space(text_[end - 1])) --end;
  return text_.substr(begin, end - begin);
}

std::string_view JsonIndex::string(Token token) const noexcept {
  // Behind a closing quote everything but white space is a token of its own, so the value ends in its quote.
  const std::string_view quoted = raw(token, token + 1);
  return quoted.substr(1, quoted.size() - 2);
}

JsonKind JsonIndex::kind(Token token) const noexcept {
  switch (at(token)) {
    case '{':
      return JsonKind::object;
    case '[':
      return JsonKind::array;
    case '"':
      return JsonKind::string;
    case 't':
      return raw(token, token + 1) == "true" ? JsonKind::yes : JsonKind::malformed;
    case 'f':
      return raw(token, token + 1) == "false" ? JsonKind::no : JsonKind::malformed;
    case 'n':
      return raw(token, token + 1) == "null" ? JsonKind::null : JsonKind::malformed;
    default:
      return is_number(raw(token, token + 1)) ? JsonKind::number : JsonKind::malformed;
  }
}

std::string_view JsonIndex::key(Token token) {
  const std::string_view escaped = string(token);
  if (std::memchr(escaped.data(), '\\', escaped.size()) == nullptr) return escaped;
  key_.clear();
  std::int64_t characters = 0;
  // A name with a malformed escape is no name that we know; the engine may judge it.
  const auto bad = unescape(escaped, escaped.size(), key_, characters);
  return bad == std::string_view::npos ? std::string_view(key_) : escaped;
}

JsonIndex::Token JsonIndex::find(Token object, std::string_view name) {
  Token found = 0;
  Token token = object;
  (void)members(token, [&](std::string_view key, Token value, Token) {  // checked before
    if (key == name) found = value;
  });
  return found;
}

bool JsonIndex::skip_container(Token& token) {
  open_.clear();
  std::uint64_t bits = 0;  // innermost containers, 1 = object
  std::size_t depth = 0;
  for (;;) {  // at a value
    const char c = at(token);
    if (c == '{' || c == '[') {
      const bool object = c == '{';
      ++token;
      if (at(token) == (object ? '}' : ']')) {
        ++token;
      } else {
        if (depth % 64 == 0 && depth != 0) open_.push_back(bits);
        bits = bits << 1U | static_cast<std::uint64_t>(object);
        ++depth;
        if (object && !skip_name(token)) return false;
        continue;
      }
    } else if (c == ',' || c == ':' || c == '}' || c == ']' || at_end(token)) {
      return fail("expected a value", token);
    } else {
      ++token;
    }
    for (;;) {  // behind a value
      if (depth == 0) return true;
      const bool object = (bits & 1U) != 0;
      const char separator = at(token);
      if (separator == ',') {
        ++token;
        if (object && !skip_name(token)) return false;
        break;
      }
      if (separator != (object ? '}' : ']')) return fail(object ? "expected ',' or '}'" : "expected ',' or ']'", token);
      ++token;
      --depth;
      bits >>= 1U;
      if (depth % 64 == 0 && depth != 0) {
        bits = open_.back();
        open_.pop_back();
      }
    }
  }
}

}  // namespace warmroute::openai
