#pragma once
// Positions of everything structural in a JSON text, found by simdjson's stage 1 (the vectorised half of its
// on-demand parser), and a cursor over them. On-demand itself skips what it is not asked for, so it would let
// `{"a" 1}` or `[}` pass inside members that nobody reads; walking the index checks all of the structure for about a
// nanosecond per token, at any depth and without recursion.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace warmroute::openai {

enum class JsonKind : std::uint8_t { object, array, string, number, yes, no, null, malformed };

/// What is wrong with a text and where (byte offset). `what` is a literal, so no text of the client is in it.
struct JsonFault {
  std::string_view what;
  std::size_t offset = 0;
};

class JsonIndex {
 public:
  /// Number of a structural token. The root value is token 0, so 0 can mean "absent" for members.
  using Token = std::uint32_t;

  JsonIndex();
  ~JsonIndex();
  JsonIndex(const JsonIndex&) = delete;
  JsonIndex& operator=(const JsonIndex&) = delete;

  /// Indexes `text` (below 4 GiB), which must outlive all other calls. Checks UTF-8, control characters in strings and
  /// that strings end. \return false: see fault().
  [[nodiscard]] bool index(std::string_view text);

  /// Gives memory back after a text that was much larger than usual.
  void shrink();

  [[nodiscard]] const JsonFault& fault() const noexcept { return fault_; }
  [[nodiscard]] std::string_view text() const noexcept { return text_; }
  [[nodiscard]] bool at_end(Token token) const noexcept { return token >= count_; }
  /// First byte of a token; NUL behind the last one.
  [[nodiscard]] char at(Token token) const noexcept { return token < count_ ? text_[starts_[token]] : '\0'; }
  [[nodiscard]] std::size_t offset(Token token) const noexcept {
    return token < count_ ? starts_[token] : text_.size();
  }
  /// The bytes of the value that begins at `token` when the token behind it is `next`.
  [[nodiscard]] std::string_view raw(Token token, Token next) const noexcept;
  /// Inside of the quotes of the string at `token`, still escaped.
  [[nodiscard]] std::string_view string(Token token) const noexcept;
  /// Kind of the value at `token`; literals and numbers are checked to their last character.
  [[nodiscard]] JsonKind kind(Token token) const noexcept;

  /// Moves `token` behind the value that begins there. \return false: see fault().
  [[nodiscard]] bool skip(Token& token) {
    switch (at(token)) {
      case '{':
      case '[':
        return skip_container(token);
      case ',':
      case ':':
      case '}':
      case ']':
        return fail("expected a value", token);
      default:
        if (at_end(token)) return fail("expected a value", token);
        ++token;
        return true;
    }
  }

  /// Calls `on_member(key, value, next)` for each member of the object at `token` and moves `token` behind it. Keys are
  /// unescaped and valid during the call only. \return false: see fault().
  template <class OnMember>
  [[nodiscard]] bool members(Token& token, OnMember&& on_member) {
    ++token;
    if (at(token) == '}') {
      ++token;
      return true;
    }
    for (;;) {
      const Token name = token;
      if (!skip_name(token)) return false;
      const Token value = token;
      if (!skip(token)) return false;
      on_member(key(name), value, token);
      const char separator = at(token);
      if (separator != ',' && separator != '}') return fail("expected ',' or '}'", token);
      ++token;
      if (separator == '}') return true;
    }
  }

  /// Calls `on_element(value, next)` for each element of the array at `token` and moves `token` behind it.
  /// \return false: see fault().
  template <class OnElement>
  [[nodiscard]] bool elements(Token& token, OnElement&& on_element) {
    ++token;
    if (at(token) == ']') {
      ++token;
      return true;
    }
    for (;;) {
      const Token value = token;
      if (!skip(token)) return false;
      on_element(value, token);
      const char separator = at(token);
      if (separator != ',' && separator != ']') return fail("expected ',' or ']'", token);
      ++token;
      if (separator == ']') return true;
    }
  }

  /// Value of the last member `name` of the object at `object` (structure known to be right), 0 when absent.
  [[nodiscard]] Token find(Token object, std::string_view name);

 private:
  struct Stage1;

  [[nodiscard]] bool skip_container(Token& token);
  [[nodiscard]] bool skip_name(Token& token) {
    if (at(token) != '"') return fail("expected a member name in double quotes", token);
    ++token;
    if (at(token) != ':') return fail("expected ':' behind the member name", token);
    ++token;
    return true;
  }
  [[nodiscard]] std::string_view key(Token token);
  bool fail(std::string_view what, Token token) noexcept;

  std::unique_ptr<Stage1> stage1_;
  std::string_view text_;
  const std::uint32_t* starts_ = nullptr;
  Token count_ = 0;
  JsonFault fault_;
  std::string key_;
  std::vector<std::uint64_t> open_;  ///< one bit per open container beyond the innermost 64
};

}  // namespace warmroute::openai
