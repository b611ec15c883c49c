#pragma once
// Step inside inspect(): renders the prompt members of a request into the one text that is hashed (ChatML).

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "openai/json_index.hpp"
#include "warmroute/request_view.hpp"

namespace warmroute::openai {

/// Values of the top-level members that can make a prompt; 0: absent.
struct PromptMembers {
  JsonIndex::Token prompt = 0, messages = 0, input = 0, system = 0, instructions = 0;
};

struct PromptOutput {
  std::string& text;                ///< cut at limit_bytes
  std::vector<MediaDigest>& media;  ///< parts that stand within the text
  std::int64_t tokens_estimate = 0;
};

class PromptRenderer {
 public:
  enum class End : std::uint8_t { rendered, no_prompt, fault };

  PromptRenderer(JsonIndex& json, std::size_t limit_bytes, PromptOutput& out)
      : json_(json), limit_bytes_(limit_bytes), out_(out) {}

  /// \return no_prompt: nothing that can be rendered (the text is empty then); fault: see fault().
  [[nodiscard]] End render(const PromptMembers& members);
  /// The same with Go's rules: a null counts as present, list prompts and lone instructions are no_prompt.
  [[nodiscard]] End render_compat(const PromptMembers& members);

  [[nodiscard]] const JsonFault& fault() const noexcept { return fault_; }

 private:
  using Token = JsonIndex::Token;
  enum class Choice : std::uint8_t { messages, input };

  bool render_prompt(Token prompt, bool lists);
  bool render_string_list(Token list);
  bool render_token_list(Token list);
  bool render_messages(Token messages, Token system);
  bool render_input(Token input, Token instructions);
  void render_system(Token system);
  void render_instructions(Token instructions);
  void render_element(Token element, Choice choice);
  void render_message(std::string_view role, bool role_escaped, Token content);
  bool append_content(Token content);
  bool append_parts(Token list);
  void note_media(Token part, std::string_view type);

  [[nodiscard]] Token present(Token token);
  [[nodiscard]] JsonKind kind(Token token);
  [[nodiscard]] bool string_is(Token token, std::string_view wanted);
  void append_literal(std::string_view text);
  void append_string(std::string_view escaped);
  void set_fault(std::string_view what, std::size_t offset);
  [[nodiscard]] End finish(bool rendered);

  JsonIndex& json_;
  std::size_t limit_bytes_;
  PromptOutput& out_;
  std::int64_t characters_ = 0;
  std::int64_t token_ids_ = -1;  ///< -1: the prompt is text
  JsonFault fault_;
};

}  // namespace warmroute::openai
