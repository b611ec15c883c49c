#include "pd/body_members.hpp"

#include <algorithm>

#include "openai/json_index.hpp"

namespace warmroute::pd {
namespace {

using openai::JsonIndex;

/// Indexed once per role and request; the memory is kept by the thread.
JsonIndex& index_of_thread() {
  thread_local JsonIndex json;
  return json;
}

}  // namespace

BodyMembers::BodyMembers(std::string_view body) : body_(body) {
  JsonIndex& json = index_of_thread();
  if (!json.index(body) || json.at(0) != '{') return;  // inspect() has refused such a body
  inside_ = json.offset(0) + 1;
  JsonIndex::Token token = 0;
  std::size_t name_at = json.offset(1);
  (void)json.members(token, [&](std::string_view name, JsonIndex::Token value, JsonIndex::Token next) {
    const std::size_t begin = json.offset(value);
    members_.push_back({std::string(name), name_at, {begin, begin + json.raw(value, next).size()}});
    name_at = json.offset(next + 1);  // behind the comma; not used behind the last
  });
  json.shrink();
}

bool BodyMembers::has(std::string_view name) const noexcept {
  return std::any_of(members_.begin(), members_.end(), [&](const Member& member) { return member.name == name; });
}

bool BodyMembers::has_value(std::string_view name) const noexcept {
  const auto last =
      std::find_if(members_.rbegin(), members_.rend(), [&](const Member& member) { return member.name == name; });
  return last != members_.rend() && last->value.of(body_) != "null";
}

void BodyEditor::set(std::string_view name, std::string json) {
  bool found = false;
  for (const auto& member : members_.members_) {
    if (member.name != name) continue;
    found = true;
    replaced_.push_back({member.value, json});
  }
  if (!found) added_.append("\"").append(name).append("\":").append(json).append(",");
}

void BodyEditor::remove(std::string_view name) {
  for (std::size_t i = 0; i < removed_.size(); ++i)
    if (members_.members_[i].name == name) removed_[i] = true;
}

void BodyEditor::append_edits(std::vector<http::Edit>& out) const {
  const auto& all = members_.members_;
  // First: an insertion must come before a removal that begins at the same place.
  const bool anything_left = std::find(removed_.begin(), removed_.end(), false) != removed_.end();
  if (!added_.empty()) {
    const std::size_t size = added_.size() - (anything_left ? 0 : 1);
    out.push_back({{members_.inside_, members_.inside_}, added_.substr(0, size)});
  }
  out.insert(out.end(), replaced_.begin(), replaced_.end());
  // A removed member takes the comma behind it along; the tail of removed members the comma in front.
  std::size_t kept_end = members_.inside_;
  std::size_t tail = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (removed_[i]) continue;
    kept_end = all[i].value.end;
    tail = i + 1;
  }
  for (std::size_t i = 0; i < tail; ++i)
    if (removed_[i]) out.push_back({{all[i].begin, all[i + 1].begin}, {}});
  if (tail < all.size()) out.push_back({{kept_end, all.back().value.end}, {}});
}

std::optional<std::string> member_of(std::string_view text, std::string_view name) {
  JsonIndex& json = index_of_thread();
  if (!json.index(text) || json.at(0) != '{') return std::nullopt;
  std::string found;
  JsonIndex::Token token = 0;
  const bool whole = json.members(token, [&](std::string_view key, JsonIndex::Token value, JsonIndex::Token next) {
    if (key == name) found = json.raw(value, next);
  });
  const bool alone = whole && json.at_end(token);
  json.shrink();
  if (!alone) return std::nullopt;
  return found;
}

}  // namespace warmroute::pd
