#pragma once
// Golden vectors (one JSON object a line) and the list of what we answer differently on purpose.

#include <simdjson.h>
#include <yaml-cpp/yaml.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace warmroute::test {

inline std::string golden_path(const std::string& name) { return WR_SOURCE_DIR "/tests/golden/" + name; }

/// Calls `check` for each record of vectors/NAME.jsonl. \return how many there were
inline int for_each_record(const std::string& name, const std::function<void(simdjson::dom::element)>& check) {
  std::ifstream file(golden_path("vectors/" + name + ".jsonl"));
  REQUIRE(file.good());
  simdjson::dom::parser parser;
  int count = 0;
  for (std::string line; std::getline(file, line); ++count) {
    const simdjson::padded_string padded(line);
    check(parser.parse(padded));
  }
  return count;
}

/// A number, or one of the strings that stand for those JSON cannot hold.
inline double number(simdjson::dom::element value) {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return double(value);
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return text == "+Inf" ? infinity : -infinity;
}

/// deviations/NAME.yaml: `rules` change expectations by name, `records` single ones. Each must be needed.
class Deviations {
 public:
  explicit Deviations(const std::string& name) {
    const YAML::Node file = YAML::LoadFile(golden_path("deviations/" + name + ".yaml"));
    for (const auto& rule : file["rules"]) unused_.insert("rule " + rule["name"].as<std::string>());
    for (const auto& record : file["records"]) {
      expected_[record["id"].as<std::string>()] = record["expect"];
      unused_.insert("record " + record["id"].as<std::string>());
    }
    known_ = unused_;
  }
  void rule(const std::string& name) {
    INFO("rule " << name << " is not in the deviations file");
    REQUIRE(known_.count("rule " + name) == 1);
    unused_.erase("rule " + name);
  }
  /// Our own right value, or null. Call it only where ours differs from the recording.
  const YAML::Node* record(const std::string& id) {
    const auto found = expected_.find(id);
    if (found == expected_.end()) return nullptr;
    unused_.erase("record " + id);
    return &found->second;
  }
  /// Entries that nothing needed; must be empty at the end.
  [[nodiscard]] const std::set<std::string>& unused() const { return unused_; }

 private:
  std::map<std::string, YAML::Node> expected_;
  std::set<std::string> known_, unused_;
};

}  // namespace warmroute::test
