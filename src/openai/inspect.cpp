#include "openai/inspect.hpp"

#include <algorithm>
#include <array>

#include "openai/json_index.hpp"
#include "openai/json_string.hpp"
#include "openai/prompt.hpp"

namespace warmroute::openai {
namespace {

using Token = JsonIndex::Token;
using model::PathLabel;

struct TopLevel {
  PromptMembers prompt;
  Token model = 0, stream = 0, stream_end = 0, stream_options = 0, stream_options_end = 0, tools = 0, tools_end = 0,
        cache_salt = 0;
};

http::Span span(const JsonIndex& json, Token token, Token next) {
  const std::size_t begin = json.offset(token);
  return {begin, begin + json.raw(token, next).size()};
}

std::string where(std::string_view what, std::size_t offset) {
  return std::string(what) + " at byte " + std::to_string(offset);
}

bool refuse(Refusal& refusal, ErrorKind kind, std::string message) {
  refusal.kind = kind;
  refusal.message = std::move(message);
  return false;
}

bool refuse(Refusal& refusal, const JsonFault& fault) {
  return refuse(refusal, ErrorKind::bad_json, "invalid JSON: " + where(fault.what, fault.offset));
}

/// Of equal names the last counts. \return false: the object's structure is broken.
bool read_top_level(JsonIndex& json, Token& token, TopLevel& top, Inspection& out) {
  return json.members(token, [&](std::string_view key, Token value, Token next) {
    switch (key.size()) {
      case 5:
        if (key == "model") {
          top.model = value;
          out.model_values.push_back(span(json, value, next));
        } else if (key == "input") {
          top.prompt.input = value;
        } else if (key == "tools") {
          top.tools = value;
          top.tools_end = next;
        }
        break;
      case 6:
        if (key == "stream") {
          top.stream = value;
          top.stream_end = next;
        } else if (key == "prompt") {
          top.prompt.prompt = value;
        } else if (key == "system") {
          top.prompt.system = value;
        }
        break;
      case 8:
        if (key == "messages") top.prompt.messages = value;
        break;
      case 10:
        if (key == "cache_salt") top.cache_salt = value;
        break;
      case 12:
        if (key == "instructions") top.prompt.instructions = value;
        break;
      case 14:
        if (key == "stream_options") {
          top.stream_options = value;
          top.stream_options_end = next;
        }
        break;
      default:
        break;
    }
  });
}

/// Unicode's White_Space, as Go's strings.TrimSpace sees it.
bool is_white_space(std::string_view character) {
  if (character.size() == 1) return std::string_view(" \t\n\v\f\r").find(character[0]) != std::string_view::npos;
  static constexpr std::array<std::string_view, 19> wide{
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::find(wide.begin(), wide.end(), character) != wide.end();
}

bool is_blank(std::string_view text) {
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) ++end;
    if (!is_white_space(text.substr(begin, end - begin))) return false;
    begin = end;
  }
  return true;
}

/// Reads the string at `token` whole. \return false: malformed escape, `fault` says where.
bool read_string(const JsonIndex& json, Token token, std::string& out, JsonFault& fault) {
  std::int64_t characters = 0;
  const std::size_t bad = unescape(json.string(token), std::string::npos, out, characters);
  if (bad == std::string_view::npos) return true;
  fault = {"malformed escape in a string", json.offset(token) + 1 + bad};
  return false;
}

bool read_model(const JsonIndex& json, Token model, bool compat, Inspection& out, Refusal& refusal) {
  std::string_view problem;
  if (model == 0) {
    problem = "model is missing";
  } else {
    JsonFault fault;
    switch (json.kind(model)) {
      case JsonKind::string:
        if (!read_string(json, model, out.model, fault)) return refuse(refusal, fault);
        if (!is_blank(out.model)) return true;
        problem = "model is blank";
        break;
      case JsonKind::null:
        problem = "model is null";
        break;
      case JsonKind::malformed:
        return refuse(refusal, {"malformed value", json.offset(model)});
      default:
        problem = "model is not a string";
    }
  }
  std::string message = "model not found";
  if (!compat) message.append(": ").append(problem);
  if (!compat && model != 0) message = where(message, json.offset(model));
  return refuse(refusal, ErrorKind::model_missing, std::move(message));
}

/// Decision 3.4: the smallest edit that makes stream_options.include_usage true.
bool plan_usage(JsonIndex& json, const TopLevel& top, std::vector<http::Edit>& edits, Refusal& refusal) {
  static constexpr std::string_view options = R"({"include_usage":true})";
  if (top.stream_options == 0) {
    const std::size_t end = span(json, top.stream, top.stream_end).end;
    edits.push_back({{end, end}, std::string(R"(,"stream_options":)").append(options)});
    return true;
  }
  switch (json.kind(top.stream_options)) {
    case JsonKind::malformed:
      return refuse(refusal, {"malformed value", json.offset(top.stream_options)});
    case JsonKind::null:
      edits.push_back({span(json, top.stream_options, top.stream_options + 1), std::string(options)});
      return true;
    case JsonKind::object:
      break;
    default:  // nothing in it can say include_usage; Go's router replaces it too
      edits.push_back({span(json, top.stream_options, top.stream_options_end), std::string(options)});
      return true;
  }
  Token usage = 0;
  Token usage_end = 0;
  Token token = top.stream_options;
  (void)json.members(token, [&](std::string_view key, Token value, Token next) {  // structure checked before
    if (key == "include_usage") {
      usage = value;
      usage_end = next;
    }
  });
  if (usage == 0) {
    const std::size_t inside = json.offset(top.stream_options) + 1;
    const bool empty = json.at(top.stream_options + 1) == '}';
    edits.push_back({{inside, inside}, empty ? R"("include_usage":true)" : R"("include_usage":true,)"});
    return true;
  }
  const JsonKind kind = json.kind(usage);
  if (kind == JsonKind::malformed) return refuse(refusal, {"malformed value", json.offset(usage)});
  if (kind != JsonKind::yes) edits.push_back({span(json, usage, usage_end), "true"});
  return true;
}

bool read_stream(JsonIndex& json, const TopLevel& top, PathLabel path, Inspection& out, Refusal& refusal) {
  if (top.stream == 0) return true;
  const JsonKind kind = json.kind(top.stream);
  if (kind == JsonKind::malformed) return refuse(refusal, {"malformed value", json.offset(top.stream)});
  out.stream = kind == JsonKind::yes;
  if (!out.stream || (path != PathLabel::chat_completions && path != PathLabel::completions)) return true;
  return plan_usage(json, top, out.ask_usage, refusal);
}

bool read_prompt(JsonIndex& json, const TopLevel& top, const InspectOptions& options, Inspection& out,
                 Refusal& refusal) {
  out.prompt.reserve(std::min(options.prompt_bytes, json.text().size()) + 64);
  PromptOutput output{out.prompt, out.media};
  PromptRenderer renderer(json, options.prompt_bytes, output);
  const auto end = options.compat ? renderer.render_compat(top.prompt) : renderer.render(top.prompt);
  out.prompt_tokens_estimate = output.tokens_estimate;
  if (end == PromptRenderer::End::fault) return refuse(refusal, renderer.fault());
  if (end == PromptRenderer::End::no_prompt && options.compat) {
    return refuse(refusal, ErrorKind::prompt_missing, "prompt not found");
  }
  return true;
}

bool read_extras(const JsonIndex& json, const TopLevel& top, PathLabel path, Inspection& out, Refusal& refusal) {
  const bool templated =
      path == PathLabel::chat_completions || path == PathLabel::responses || path == PathLabel::messages;
  if (templated && top.tools != 0 && json.kind(top.tools) != JsonKind::null) {
    out.tools = span(json, top.tools, top.tools_end);
  }
  if (top.cache_salt != 0 && json.kind(top.cache_salt) == JsonKind::string) {
    JsonFault fault;
    if (!read_string(json, top.cache_salt, out.cache_salt, fault)) return refuse(refusal, fault);
  }
  return true;
}

void clear(Inspection& out) {
  out.model.clear();
  out.model_values.clear();
  out.stream = false;
  out.ask_usage.clear();
  out.prompt.clear();
  out.prompt_tokens_estimate = 0;
  out.tools = {};
  out.cache_salt.clear();
  out.media.clear();
}

bool refuse_root(const JsonIndex& json, bool compat, Refusal& refusal) {
  if (json.text().starts_with("\xEF\xBB\xBF")) return refuse(refusal, {"the body begins with a byte order mark", 0});
  const JsonKind kind = json.kind(0);
  if (kind == JsonKind::null && json.at_end(1)) {  // Go reads null as an object without members
    return refuse(refusal, ErrorKind::model_missing, compat ? "model not found" : "model not found: the body is null");
  }
  return refuse(refusal, {"the body is not a JSON object", json.offset(0)});
}

bool inspect_with(JsonIndex& json, std::string_view body, const InspectOptions& options, Inspection& out,
                  Refusal& refusal) {
  clear(out);
  if (!json.index(body)) return refuse(refusal, json.fault());
  if (json.at(0) != '{') return refuse_root(json, options.compat, refusal);
  TopLevel top;
  Token token = 0;
  if (!read_top_level(json, token, top, out)) return refuse(refusal, json.fault());
  if (!json.at_end(token)) {
    static constexpr std::string_view text = "invalid request body";
    if (options.compat) return refuse(refusal, ErrorKind::trailing_data, std::string(text));
    return refuse(refusal, ErrorKind::trailing_data,
                  where(std::string(text) + ": more data behind the JSON object", json.offset(token)));
  }
  return read_model(json, top.model, options.compat, out, refusal) &&
         read_stream(json, top, options.path, out, refusal) && read_prompt(json, top, options, out, refusal) &&
         read_extras(json, top, options.path, out, refusal);
}

}  // namespace

bool inspect(std::string_view body, const InspectOptions& options, Inspection& out, Refusal& refusal) {
  thread_local JsonIndex json;
  const bool ok = inspect_with(json, body, options, out, refusal);
  json.shrink();
  return ok;
}

}  // namespace warmroute::openai
