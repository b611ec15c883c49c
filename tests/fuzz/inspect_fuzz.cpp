// libFuzzer: byte 0 chooses path, mode and limit, the rest is the body. What is accepted must stay accepted when the
// edits are applied, and nothing that a strict parser takes may be called broken.
#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "openai/inspect.hpp"

namespace {

using warmroute::http::Span;
using namespace warmroute::openai;

void require(bool condition) {
  if (!condition) std::abort();
}

bool ask(std::string_view text, const InspectOptions& options, Inspection& out, Refusal& refusal) {
  std::string padded(text);
  padded.append(body_padding, '"');
  return inspect(std::string_view(padded).substr(0, text.size()), options, out, refusal);
}

void check_refused(std::string_view body, const InspectOptions& options, const Refusal& refusal) {
  require(refusal.kind == ErrorKind::bad_json || refusal.kind == ErrorKind::trailing_data ||
          refusal.kind == ErrorKind::model_missing || (refusal.kind == ErrorKind::prompt_missing && options.compat));
  require(!refusal.message.empty() && refusal.message.size() < 200);
  if (refusal.kind != ErrorKind::bad_json && refusal.kind != ErrorKind::trailing_data) return;
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const simdjson::padded_string copy(body);
  require(parser.parse(copy).get(object) != simdjson::SUCCESS);
}

void check_accepted(std::string_view body, const InspectOptions& options, const Inspection& first) {
  require(first.prompt.size() <= options.prompt_bytes);
  require(first.prompt_tokens_estimate >= 0);
  require(!first.model.empty() && !first.model_values.empty());
  require(first.tools.begin <= first.tools.end && first.tools.end <= body.size());
  for (const auto& media : first.media) require(media.text_offset <= first.prompt.size());

  auto edits = first.ask_usage;
  for (const Span& span : first.model_values) {
    require(span.end <= body.size());
    edits.push_back({span, "\"other\""});
  }
  std::string sent;
  for (const std::string_view piece : warmroute::http::splice(body, edits)) sent.append(piece);
  Inspection second;
  Refusal refusal;
  require(ask(sent, options, second, refusal));
  require(second.model == "other");
  require(second.model_values.size() == first.model_values.size());
  require(second.ask_usage.empty());
  require(second.stream == first.stream);
  require(second.prompt == first.prompt);
  require(second.prompt_tokens_estimate == first.prompt_tokens_estimate);
  require(second.cache_salt == first.cache_salt);
  require(second.tools.of(sent) == first.tools.of(body));

  InspectOptions more = options;
  more.prompt_bytes = options.prompt_bytes * 2 + 7;
  Inspection longer;
  require(ask(body, more, longer, refusal));
  require(longer.prompt.starts_with(first.prompt));
  require(longer.prompt_tokens_estimate == first.prompt_tokens_estimate);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  InspectOptions options;
  options.path = static_cast<warmroute::model::PathLabel>((data[0] & 0xFU) % warmroute::model::path_label_count);
  options.compat = (data[0] & 0x10U) != 0;
  options.prompt_bytes = (data[0] & 0x20U) != 0 ? 8192 : 16;
  Inspection out;
  Refusal refusal;
  if (ask(body, options, out, refusal)) {
    check_accepted(body, options, out);
  } else {
    check_refused(body, options, refusal);
  }
  return 0;
}
