#pragma once
// Conditions of an object's status, as JSON both ways. No I/O.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "config/json_reader.hpp"
#include "status/timestamp.hpp"

namespace warmroute::status {

/// Of a condition's message and of an Event's note, which the API server refuses when they are longer.
inline constexpr std::size_t message_limit_bytes = 1024;
/// The text, cut at that length between two UTF-8 characters.
[[nodiscard]] std::string limited(std::string text);

/// What we think; of the types that are ours.
struct Condition {
  std::string type;
  bool is_true = false;
  std::string reason;   ///< one word
  std::string message;  ///< a sentence for people
};

/// What the API server has.
struct StoredCondition {
  std::string type, status, reason, message, since;  ///< since: lastTransitionTime
  std::uint32_t generation = 0;                      ///< observedGeneration
};

[[nodiscard]] std::vector<StoredCondition> read_conditions(const config::JsonReader& object);

/// `stored` with `wanted` in place of those of the same type; others stay. The time of a transition changes with the
/// status only.
[[nodiscard]] std::vector<StoredCondition> merge(const std::vector<StoredCondition>& stored,
                                                 const std::vector<Condition>& wanted, std::uint32_t generation,
                                                 Moment now);
/// Everything but the times is equal.
[[nodiscard]] bool same(const std::vector<StoredCondition>& a, const std::vector<StoredCondition>& b);
[[nodiscard]] const StoredCondition* find(const std::vector<StoredCondition>& conditions, const std::string& type);

/// A merge patch for the status subresource.
[[nodiscard]] std::string conditions_patch(const std::vector<StoredCondition>& conditions);

}  // namespace warmroute::status
