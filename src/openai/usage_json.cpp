#include "openai/usage_json.hpp"

#include <charconv>
#include <cstring>

#include "openai/either_byte.hpp"
#include "openai/json_index.hpp"
#include "openai/json_string.hpp"

namespace warmroute::openai {
namespace {

using Token = JsonIndex::Token;

/// Larger counts are nonsense, and sums of smaller ones cannot overflow.
constexpr std::int64_t largest_count = std::int64_t{1} << 53;
constexpr std::size_t longest_type = 64;

/// null leaves `out` as it is. \return false: not a count.
bool read_count(const JsonIndex& json, Token value, std::int64_t& out) {
  if (json.kind(value) == JsonKind::null) return true;
  if (json.kind(value) != JsonKind::number) return false;
  const std::string_view raw = json.raw(value, value + 1);
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), count);
  if (error != std::errc{} || end != raw.data() + raw.size() || count < 0 || count > largest_count) return false;
  out = count;
  return true;
}

/// `details.cached_tokens`, which is nice to have: whatever else stands there is no fault.
void read_cached(JsonIndex& json, Token details, Usage& out) {
  if (json.kind(details) != JsonKind::object) return;
  const Token cached = json.find(details, "cached_tokens");
  if (cached != 0) (void)read_count(json, cached, out.cached_tokens);
}

bool read_usage(JsonIndex& json, Token object, Protocol protocol, Usage& out) {
  bool ok = true;
  std::int64_t input = 0;
  std::int64_t output = 0;
  std::int64_t total = 0;
  std::int64_t cache_creation = 0;
  std::int64_t cache_read = -1;
  Token details = 0;
  const bool anthropic = protocol == Protocol::anthropic;
  const bool openai = protocol == Protocol::openai;
  const std::string_view input_name = openai ? "prompt_tokens" : "input_tokens";
  const std::string_view output_name = openai ? "completion_tokens" : "output_tokens";
  const std::string_view details_name = openai ? "prompt_tokens_details" : "input_tokens_details";
  Token token = object;
  const bool whole = json.members(token, [&](std::string_view key, Token value, Token) {
    if (key == input_name) {
      ok = read_count(json, value, input) && ok;
    } else if (key == output_name) {
      ok = read_count(json, value, output) && ok;
    } else if (key == "total_tokens" && !anthropic) {
      ok = read_count(json, value, total) && ok;
    } else if (key == "cache_creation_input_tokens" && anthropic) {
      ok = read_count(json, value, cache_creation) && ok;
    } else if (key == "cache_read_input_tokens" && anthropic) {
      ok = read_count(json, value, cache_read) && ok;
    } else if (key == details_name) {
      details = value;
    }
  });
  if (!ok || !whole) return false;
  out = Usage{};
  if (anthropic) {
    input += cache_creation + (cache_read > 0 ? cache_read : 0);
    out.cached_tokens = cache_read;
  } else if (details != 0) {
    read_cached(json, details, out);
  }
  out.prompt_tokens = input;
  out.completion_tokens = output;
  out.total_tokens = total != 0 ? total : input + output;
  out.seen = true;
  return true;
}

/// `member` of the event, or of the object that wraps it. \return false: wrong type.
bool read_member_usage(JsonIndex& json, Token value, Protocol protocol, Usage& into) {
  if (value == 0 || json.kind(value) == JsonKind::null) return true;
  Usage usage;
  if (json.kind(value) != JsonKind::object || !read_usage(json, value, protocol, usage)) return false;
  merge_usage(into, usage, protocol);
  return true;
}

bool read_wrapped_usage(JsonIndex& json, Token wrapper, Protocol protocol, Usage& into) {
  if (wrapper == 0 || json.kind(wrapper) == JsonKind::null) return true;
  if (json.kind(wrapper) != JsonKind::object) return false;
  return read_member_usage(json, json.find(wrapper, "usage"), protocol, into);
}

bool is_structure(char c) noexcept { return c == '"' || c == '{' || c == '}' || c == '[' || c == ']'; }

JsonIndex& thread_index() {
  thread_local JsonIndex json;
  return json;
}

bool read_event(JsonIndex& json, std::string_view text, Protocol protocol, UsageEvent& out) {
  if (!json.index(text) || json.at(0) != '{') return false;
  const std::string_view wrapper_name = protocol == Protocol::responses ? "response" : "message";
  Token usage = 0;
  Token choices = 0;
  Token type = 0;
  Token wrapper = 0;
  Token token = 0;
  const bool whole = json.members(token, [&](std::string_view key, Token value, Token) {
    if (key == "usage") {
      usage = value;
    } else if (key == "choices") {
      choices = value;
    } else if (key == "type") {
      type = value;
    } else if (key == wrapper_name) {
      wrapper = value;
    }
  });
  if (!whole || !json.at_end(token)) return false;
  if (type != 0 && json.kind(type) == JsonKind::string) {
    std::int64_t ignored = 0;
    if (unescape(json.string(type), longest_type, out.type, ignored) != std::string_view::npos) out.type.clear();
  }
  if (protocol == Protocol::openai) {
    if (choices != 0 && json.kind(choices) != JsonKind::null) {
      if (json.kind(choices) != JsonKind::array) return false;
      out.has_choices = json.at(choices + 1) != ']';
    }
  } else if (!read_wrapped_usage(json, wrapper, protocol, out.usage)) {
    return false;
  }
  return read_member_usage(json, usage, protocol, out.usage);
}

}  // namespace

void merge_usage(Usage& into, const Usage& from, Protocol protocol) {
  if (!from.seen) return;
  if (protocol != Protocol::anthropic) {
    if (from.total_tokens > 0 || !into.seen) into = from;
    return;
  }
  if (from.prompt_tokens > 0) into.prompt_tokens = from.prompt_tokens;
  if (from.completion_tokens > 0) into.completion_tokens = from.completion_tokens;
  if (from.cached_tokens >= 0) into.cached_tokens = from.cached_tokens;
  into.total_tokens = into.prompt_tokens + into.completion_tokens;
  into.seen = true;
}

bool read_usage_event(std::string_view json, Protocol protocol, UsageEvent& out) {
  out = UsageEvent{};
  JsonIndex& index = thread_index();
  const bool ok = read_event(index, json, protocol, out);
  index.shrink();
  return ok;
}

bool read_usage_object(std::string_view json, Protocol protocol, Usage& out) {
  JsonIndex& index = thread_index();
  return index.index(json) && index.at(0) == '{' && read_usage(index, 0, protocol, out);
}

namespace {

std::string_view skip_space(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n' || text.front() == '\r' || text.front() == '\t'))
    text.remove_prefix(1);
  return text;
}

// Behind the last member name `usage` and its colon; empty when there is none. Inside a string the quotes of the
// pattern would be escaped, so what is found with a colon behind it is a name. Searched from the end, where engines
// put it.
std::string_view behind_last_usage_name(std::string_view text) noexcept {
  static constexpr std::string_view name = "\"usage\"";
  if (text.size() < name.size()) return {};
  for (std::size_t at = text.size() - name.size() + 1; at-- > 0;) {
    if (text[at] != '"' || std::memcmp(text.data() + at, name.data(), name.size()) != 0) continue;
    const auto rest = skip_space(text.substr(at + name.size()));
    if (rest.starts_with(':')) return rest.substr(1);
  }
  return {};
}

// Reads on from inside a value, outside of strings. \return offset behind the bracket that closes `depth` levels, or
// npos.
std::size_t close_levels(std::string_view text, std::size_t from, int depth) noexcept {
  for (std::size_t i = from; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      for (++i; i < text.size() && text[i] != '"'; ++i)
        if (text[i] == '\\') ++i;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

bool JsonUsageCapture::read_whole(std::string_view body, Protocol protocol, Usage& usage) {
  const auto tail = skip_space(behind_last_usage_name(body));
  if (!tail.starts_with('{') || !skip_space(body).starts_with('{')) return false;
  const auto object_end = close_levels(tail, 0, 0);
  if (object_end > capture_limit) return false;
  const auto body_end = close_levels(tail, object_end, 1);
  if (body_end == std::string_view::npos || !skip_space(tail.substr(body_end)).empty()) return false;
  Usage found;
  if (!read_usage_object(tail.substr(0, object_end), protocol, found) || found.total_tokens <= 0) return false;
  usage = found;
  return true;
}

void JsonUsageCapture::feed(std::string_view piece, Protocol protocol, Usage& usage) {
  const char* p = piece.data();
  const char* const end = p + piece.size();
  EitherByte quotes('"', '\\', p, end);
  const char* captured_to = p;  // bytes before this are in captured_ or not wanted
  while (p != end && !done_) {
    if (inside_string_) {
      p = skip_string(p, end, quotes);
      continue;
    }
    // Almost all bytes of a large answer outside strings are digits deep inside (embeddings).
    if (depth_ > 1 && !is_structure(*p)) {
      ++p;
      continue;
    }
    const char c = *p;
    const bool was_capturing = capturing_;
    on_byte(c);
    if (capturing_ && !was_capturing) captured_to = p;
    ++p;
    if (was_capturing && depth_ == 1) {
      keep(captured_to, p);
      end_capture(protocol, usage);
    }
  }
  if (capturing_) keep(captured_to, end);
}

const char* JsonUsageCapture::skip_string(const char* p, const char* end, EitherByte& quotes) {
  if (escaped_) {
    escaped_ = false;
    return p + 1;
  }
  const char* stop = quotes.find(p);
  if (reading_name_ && name_.size() <= usage_name.size()) {
    name_.append(p, std::min(static_cast<std::size_t>(stop - p), usage_name.size() + 1));
  }
  if (stop == end) return end;
  if (*stop == '\\') {
    escaped_ = true;
    if (reading_name_) name_.push_back('\\');  // a name with escapes is not ours
  } else {
    inside_string_ = false;
    reading_name_ = false;
  }
  return stop + 1;
}

void JsonUsageCapture::on_byte(char c) {
  if (depth_ > 1) {
    if (c == '"') {
      inside_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      --depth_;
    }
    return;
  }
  if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return;
  switch (expect_) {
    case Expect::root:
      done_ = c != '{';
      depth_ = 1;
      expect_ = Expect::name;
      return;
    case Expect::name:
      done_ = c != '"';
      inside_string_ = true;
      reading_name_ = true;
      name_.clear();
      expect_ = Expect::colon;
      return;
    case Expect::colon:
      done_ = c != ':';
      expect_ = Expect::value;
      return;
    case Expect::value:
      expect_ = Expect::separator;
      inside_string_ = c == '"';
      if (c == '{' || c == '[') ++depth_;
      capturing_ = c == '{' && name_ == usage_name;
      return;
    case Expect::separator:  // or the rest of a number or literal
      if (c == ',') expect_ = Expect::name;
      done_ = c == '}' || c == ']' || c == '{' || c == '[' || c == '"';
      return;
  }
}

void JsonUsageCapture::keep(const char* from, const char* to) {
  const std::size_t room = capture_limit + 1 - captured_.size();
  captured_.append(from, std::min(static_cast<std::size_t>(to - from), room));
}

void JsonUsageCapture::end_capture(Protocol protocol, Usage& usage) {
  capturing_ = false;
  Usage found;
  if (captured_.size() <= capture_limit && read_usage_object(captured_, protocol, found) && found.total_tokens > 0) {
    usage = found;
  }
  captured_.clear();
}

}  // namespace warmroute::openai
