#pragma once
// Edits of top-level members of a JSON object, on the client's own bytes (decision 3.4): what is not named stays as it
// is, numbers, order, white space and duplicates included.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/splice.hpp"

namespace warmroute::pd {

/// Where the top-level members of a body stand. Small: one entry per member.
class BodyMembers {
 public:
  /// \param body a JSON object whose structure was checked before (openai::inspect); must outlive this.
  explicit BodyMembers(std::string_view body);

  [[nodiscard]] bool has(std::string_view name) const noexcept;
  /// Present in its last occurrence, the one that counts, and not null.
  [[nodiscard]] bool has_value(std::string_view name) const noexcept;

 private:
  friend class BodyEditor;
  struct Member {
    std::string name;  ///< unescaped
    std::size_t begin = 0;
    http::Span value;
  };
  std::string_view body_;
  std::size_t inside_ = 0;  ///< just behind the opening brace
  std::vector<Member> members_;
};

/// Collects what is to change; edits() makes splices of it. One per request that is sent.
class BodyEditor {
 public:
  /// Both must outlive this.
  explicit BodyEditor(const BodyMembers& members) : members_(members), removed_(members.members_.size(), false) {}

  /// `name` becomes `json` wherever it stands, or is added in front when it does not. Plain ASCII name.
  void set(std::string_view name, std::string json);
  void remove(std::string_view name);

  /// Edits that do not overlap. Appended to `out`, which may hold edits of other members (not removed ones).
  void append_edits(std::vector<http::Edit>& out) const;

 private:
  const BodyMembers& members_;
  std::vector<bool> removed_;
  std::vector<http::Edit> replaced_;
  std::string added_;  ///< members with a comma behind each
};

/// The raw bytes of member `name` of the JSON object `text`; nullopt: `text` is no JSON object. Empty: not there.
[[nodiscard]] std::optional<std::string> member_of(std::string_view text, std::string_view name);

}  // namespace warmroute::pd
