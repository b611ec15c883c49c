#include "openai/prompt.hpp"

#include <algorithm>
#include <array>
#include <utility>

// Header-only, so that the library of this layer needs no further link dependency.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "openai/json_string.hpp"

namespace warmroute::openai {
namespace {

/// Part types that are not text but change what the engine sees, and the member that carries the content.
constexpr std::array<std::pair<std::string_view, std::string_view>, 12> media_parts{{
    {"image_url", "image_url"},
    {"input_image", "image_url"},
    {"image", "source"},
    {"input_audio", "input_audio"},
    {"audio_url", "audio_url"},
    {"audio", "audio"},
    {"video_url", "video_url"},
    {"input_video", "video_url"},
    {"video", "video"},
    {"file", "file"},
    {"input_file", "file_data"},
    {"document", "source"},
}};

bool is_text_part(std::string_view type) { return type == "text" || type == "input_text" || type == "output_text"; }

}  // namespace

PromptRenderer::End PromptRenderer::render(const PromptMembers& members) {
  const Token prompt = present(members.prompt);
  const Token messages = present(members.messages);
  const Token input = present(members.input);
  const Token system = present(members.system);
  const Token instructions = present(members.instructions);
  if (prompt != 0) return finish(render_prompt(prompt, true));
  if (messages != 0) return finish(render_messages(messages, system));
  if (input != 0) return finish(render_input(input, instructions));
  if (system != 0) render_system(system);
  if (instructions != 0) render_instructions(instructions);
  return finish(system != 0 || instructions != 0);
}

PromptRenderer::End PromptRenderer::render_compat(const PromptMembers& members) {
  if (members.prompt != 0) return finish(render_prompt(members.prompt, false));
  if (members.messages != 0) return finish(render_messages(members.messages, members.system));
  if (members.input != 0) return finish(render_input(members.input, members.instructions));
  return finish(false);
}

PromptRenderer::End PromptRenderer::finish(bool rendered) {
  if (!fault_.what.empty()) return End::fault;
  if (!rendered) {
    out_.text.clear();
    out_.media.clear();
    out_.tokens_estimate = 0;
    return End::no_prompt;
  }
  out_.tokens_estimate = token_ids_ >= 0 ? token_ids_ : (characters_ + 3) / 4;
  return End::rendered;
}

bool PromptRenderer::render_prompt(Token prompt, bool lists) {
  const JsonKind prompt_kind = kind(prompt);
  if (prompt_kind == JsonKind::string) {
    append_string(json_.string(prompt));
    return true;
  }
  if (!lists || prompt_kind != JsonKind::array) return false;
  return json_.at(prompt + 1) == '"' ? render_string_list(prompt) : render_token_list(prompt);
}

bool PromptRenderer::render_string_list(Token list) {
  bool only_strings = true;
  bool first = true;
  Token token = list;
  (void)json_.elements(token, [&](Token value, Token) {  // checked before
    if (kind(value) != JsonKind::string) {
      only_strings = false;
      return;
    }
    if (!first) append_literal("\n");
    first = false;
    append_string(json_.string(value));
  });
  return only_strings;
}

bool PromptRenderer::render_token_list(Token list) {
  // Ids come by the ten thousand, so they are counted by their first bytes; their digits are not read here.
  std::int64_t ids = 0;
  std::size_t depth = 1;
  Token token = list + 1;
  for (; depth > 0; ++token) {
    const char c = json_.at(token);
    if ((c >= '0' && c <= '9') || c == '-') {
      ++ids;
    } else if (c == '[') {
      if (++depth > 2) return false;
    } else if (c == ']') {
      --depth;
    } else if (c != ',') {
      return false;
    }
  }
  if (ids == 0) return false;
  token_ids_ = ids;
  out_.text.assign(json_.raw(list, token).substr(0, limit_bytes_));
  return true;
}

bool PromptRenderer::render_messages(Token messages, Token system) {
  if (kind(messages) != JsonKind::array) return false;
  if (system != 0) render_system(system);
  Token token = messages;
  (void)json_.elements(token, [&](Token value, Token) { render_element(value, Choice::messages); });
  return true;
}

bool PromptRenderer::render_input(Token input, Token instructions) {
  const JsonKind input_kind = kind(input);
  if (input_kind != JsonKind::string && input_kind != JsonKind::array) return false;
  if (instructions != 0) render_instructions(instructions);
  if (input_kind == JsonKind::string) {
    render_message("user", false, input);
    return true;
  }
  Token token = input;
  (void)json_.elements(token, [&](Token value, Token) { render_element(value, Choice::input); });
  return true;
}

void PromptRenderer::render_system(Token system) { render_message("system", false, system); }

void PromptRenderer::render_instructions(Token instructions) {
  if (kind(instructions) == JsonKind::string && !json_.string(instructions).empty()) {
    render_message("developer", false, instructions);
  }
}

void PromptRenderer::render_element(Token element, Choice choice) {
  if (kind(element) != JsonKind::object) return;
  Token role = 0;
  Token content = 0;
  Token type = 0;
  Token token = element;
  (void)json_.members(token, [&](std::string_view key, Token value, Token) {
    if (key == "role") {
      role = value;
    } else if (key == "content") {
      content = value;
    } else if (key == "type") {
      type = value;
    }
  });
  if (role == 0 || content == 0 || kind(role) != JsonKind::string) return;
  const std::string_view role_text = json_.string(role);
  if (choice == Choice::input) {
    if (role_text.empty()) return;
    const bool other_item =
        type != 0 && kind(type) == JsonKind::string && !json_.string(type).empty() && !string_is(type, "message");
    if (other_item) return;
  }
  render_message(role_text, true, content);
}

void PromptRenderer::render_message(std::string_view role, bool role_escaped, Token content) {
  const std::size_t saved_size = out_.text.size();
  const std::int64_t saved_characters = characters_;
  const std::size_t saved_media = out_.media.size();
  append_literal("<|im_start|>");
  if (role_escaped) {
    append_string(role);
  } else {
    append_literal(role);
  }
  append_literal("\n");
  if (append_content(content)) {
    append_literal("<|im_end|>\n");
    return;
  }
  // A message without text vanishes, but its images still stand between its neighbours.
  out_.text.resize(saved_size);
  characters_ = saved_characters;
  for (std::size_t i = saved_media; i < out_.media.size(); ++i) out_.media[i].text_offset = saved_size;
}

bool PromptRenderer::append_content(Token content) {
  switch (kind(content)) {
    case JsonKind::string:
      append_string(json_.string(content));
      return true;
    case JsonKind::array:
      return append_parts(content);
    default:
      return false;
  }
}

bool PromptRenderer::append_parts(Token list) {
  bool any = false;
  Token list_end = list;
  (void)json_.elements(list_end, [&](Token part, Token) {
    if (kind(part) != JsonKind::object) return;
    Token type = 0;
    Token text = 0;
    Token token = part;
    (void)json_.members(token, [&](std::string_view key, Token value, Token) {
      if (key == "type") {
        type = value;
      } else if (key == "text") {
        text = value;
      }
    });
    if (type != 0 && kind(type) == JsonKind::string) {
      std::string type_text;
      std::int64_t ignored = 0;
      if (unescape(json_.string(type), 32, type_text, ignored) != std::string_view::npos) return;
      if (!is_text_part(type_text)) return note_media(part, type_text);
    }
    if (text == 0 || kind(text) != JsonKind::string) return;
    if (any) append_literal("\n");
    any = true;
    append_string(json_.string(text));
  });
  return any;
}

void PromptRenderer::note_media(Token part, std::string_view type) {
  if (out_.text.size() >= limit_bytes_) return;  // stands behind everything that is hashed
  for (const auto& [name, payload_name] : media_parts) {
    if (type != name) continue;
    Token payload = json_.find(part, payload_name);
    if (payload == 0) payload = part;
    Token end = payload;
    (void)json_.skip(end);  // checked before
    const std::string_view raw = json_.raw(payload, end);
    out_.media.push_back({out_.text.size(), XXH3_64bits(raw.data(), raw.size())});
    return;
  }
}

PromptRenderer::Token PromptRenderer::present(Token token) {
  return token != 0 && kind(token) == JsonKind::null ? 0 : token;
}

JsonKind PromptRenderer::kind(Token token) {
  const JsonKind result = json_.kind(token);
  if (result == JsonKind::malformed) set_fault("malformed value", json_.offset(token));
  return result;
}

bool PromptRenderer::string_is(Token token, std::string_view wanted) {
  std::string text;
  std::int64_t ignored = 0;
  return unescape(json_.string(token), wanted.size() + 1, text, ignored) == std::string_view::npos && text == wanted;
}

void PromptRenderer::append_literal(std::string_view text) {
  characters_ += static_cast<std::int64_t>(text.size());
  if (out_.text.size() < limit_bytes_) out_.text.append(text.substr(0, limit_bytes_ - out_.text.size()));
}

void PromptRenderer::append_string(std::string_view escaped) {
  const std::size_t bad = unescape(escaped, limit_bytes_, out_.text, characters_);
  if (bad != std::string_view::npos) {
    set_fault("malformed escape in a string", static_cast<std::size_t>(escaped.data() - json_.text().data()) + bad);
  }
}

void PromptRenderer::set_fault(std::string_view what, std::size_t offset) {
  if (fault_.what.empty()) fault_ = {what, offset};
}

}  // namespace warmroute::openai
