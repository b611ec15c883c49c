#include "status/condition.hpp"

#include <algorithm>

#include "config/resource_json.hpp"

namespace warmroute::status {

std::string limited(std::string text) {
  if (text.size() <= message_limit_bytes) return text;
  std::size_t end = message_limit_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  text.resize(end);
  return text;
}

std::vector<StoredCondition> read_conditions(const config::JsonReader& object) {
  std::vector<StoredCondition> out;
  for (const auto& each : object.get("status").get("conditions").items()) {
    StoredCondition condition;
    condition.type = each.get("type").text();
    condition.status = each.get("status").text();
    condition.reason = each.get("reason").text();
    condition.message = each.get("message").text();
    condition.since = each.get("lastTransitionTime").text();
    condition.generation = each.get("observedGeneration").number().value_or(0);
    out.push_back(std::move(condition));
  }
  return out;
}

const StoredCondition* find(const std::vector<StoredCondition>& conditions, const std::string& type) {
  const auto it =
      std::find_if(conditions.begin(), conditions.end(), [&](const auto& each) { return each.type == type; });
  return it == conditions.end() ? nullptr : &*it;
}

std::vector<StoredCondition> merge(const std::vector<StoredCondition>& stored, const std::vector<Condition>& wanted,
                                   std::uint32_t generation, Moment now) {
  std::vector<StoredCondition> out = stored;
  for (const Condition& want : wanted) {
    auto it = std::find_if(out.begin(), out.end(), [&](const auto& each) { return each.type == want.type; });
    if (it == out.end()) {
      it = out.emplace(out.end());
      it->type = want.type;
    }
    const char* const status = want.is_true ? "True" : "False";
    if (it->status != status) it->since = to_time(now);
    it->status = status;
    it->reason = want.reason;
    it->message = want.message;
    it->generation = generation;
  }
  return out;
}

bool same(const std::vector<StoredCondition>& a, const std::vector<StoredCondition>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.type == y.type && x.status == y.status && x.reason == y.reason && x.message == y.message &&
           x.generation == y.generation;
  });
}

std::string conditions_patch(const std::vector<StoredCondition>& conditions) {
  config::detail::JsonWriter json;
  json.begin_object().key("status").begin_object().key("conditions").begin_list();
  for (const StoredCondition& each : conditions) {
    json.begin_object().key("type").text(each.type).key("status").text(each.status);
    if (each.generation != 0) json.key("observedGeneration").number(each.generation);
    json.key("lastTransitionTime").text(each.since);
    json.key("reason").text(each.reason).key("message").text(each.message).end_object();
  }
  return json.end_list().end_object().end_object().take();
}

}  // namespace warmroute::status
