#pragma once
// Typed reading of a JSON object as Go's decoder does it: absent and null leave a field empty, another type is an
// error. The first error is kept with its path.

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace warmroute::config {

/// A place in a document. Valid as long as its parser and the `problem` it was made with.
class JsonReader {
 public:
  /// \param problem receives "PATH: expected ..., found ..." once; empty so far.
  JsonReader(simdjson::dom::element root, std::string& problem) : value_(root), problem_(&problem) {}

  /// Present and not null.
  explicit operator bool() const noexcept { return value_.has_value(); }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The value as compact JSON, null when absent.
  [[nodiscard]] std::string raw() const { return value_ ? std::string(simdjson::minify(*value_)) : "null"; }
  /// The same value with paths that begin here.
  [[nodiscard]] JsonReader as_root() const { return {value_, {}, problem_}; }

  /// The member; of equal ones the last.
  [[nodiscard]] JsonReader get(std::string_view key) const;
  [[nodiscard]] std::vector<JsonReader> items() const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonReader>> entries() const;
  [[nodiscard]] std::string text() const { return optional_text().value_or(std::string()); }
  [[nodiscard]] std::optional<std::string> optional_text() const;
  [[nodiscard]] std::optional<std::uint32_t> number() const;
  [[nodiscard]] bool boolean() const;

 private:
  JsonReader(std::optional<simdjson::dom::element> value, std::string path, std::string* problem)
      : value_(value), path_(std::move(path)), problem_(problem) {}
  void wrong(const char* expected) const;

  std::optional<simdjson::dom::element> value_;
  std::string path_;
  std::string* problem_;
};

}  // namespace warmroute::config
