#pragma once
// inspect() on a body with the padding that it asks for.

#include <string>
#include <string_view>

#include "openai/inspect.hpp"

namespace warmroute::openai::test {

struct Inspected {
  bool ok = false;
  Inspection out;
  Refusal refusal;
  std::string body;  ///< the spans of `out` point into it
};

inline Inspected run_inspect(std::string_view text, InspectOptions options = {}) {
  Inspected result;
  result.body = text;
  result.body.append(body_padding, '\x01');
  result.ok = inspect(std::string_view(result.body).substr(0, text.size()), options, result.out, result.refusal);
  result.body.resize(text.size());
  return result;
}

inline InspectOptions on(model::PathLabel path) { return {.path = path}; }

/// The body as the engine would get it: usage asked for, every model replaced by `model`.
inline std::string sent(Inspected& inspected, const std::string& model = "") {
  auto edits = inspected.out.ask_usage;
  if (!model.empty()) {
    for (const http::Span& span : inspected.out.model_values) edits.push_back({span, '"' + model + '"'});
  }
  std::string text;
  for (const std::string_view piece : http::splice(inspected.body, edits)) text.append(piece);
  return text;
}

}  // namespace warmroute::openai::test
