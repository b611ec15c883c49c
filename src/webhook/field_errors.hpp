#pragma once
// What is wrong with an object, in the form that Kubernetes gives such lists:
// `spec.rules[0].targetModels: Invalid value: 0: total weight must be greater than zero`.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace warmroute::webhook {

class FieldErrors {
 public:
  void required(std::string_view path, std::string_view detail);
  /// \param shown the value as it is to appear: go_quoted() for a string, else JSON.
  void invalid(std::string_view path, std::string_view shown, std::string_view detail);
  void not_supported(std::string_view path, std::string_view value, std::initializer_list<std::string_view> supported);

  [[nodiscard]] bool empty() const noexcept { return lines_.empty(); }
  [[nodiscard]] const std::vector<std::string>& lines() const noexcept { return lines_; }

 private:
  std::vector<std::string> lines_;
};

/// The text as a Go string literal (%q).
[[nodiscard]] std::string go_quoted(std::string_view text);

}  // namespace warmroute::webhook
