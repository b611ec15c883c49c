// Prompt text, token estimate, model and refusals (vectors/prompt.jsonl), with --compat=kthena.
#include <array>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "openai/inspect.hpp"
#include "support/golden_file.hpp"

namespace warmroute::test {
namespace {

using simdjson::dom::element;

struct Answer {
  int status = 200;
  std::string stage;        ///< of a refusal
  std::string client_body;  ///< of a refusal
  std::string model, prompt;
  std::int64_t input_tokens = 0;
};

std::string decode_base64(std::string_view text) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6U | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> static_cast<unsigned>(count) & 0xFFU));
    }
  }
  return out;
}

std::string text_or(element record, std::string_view name, std::string_view otherwise) {
  std::string_view text;
  return std::string(record[name].get(text) == simdjson::SUCCESS ? text : otherwise);
}

Answer ask(element record) {
  std::string body = text_or(record, "body", "");
  if (std::string_view encoded; record["body_b64"].get(encoded) == simdjson::SUCCESS) body = decode_base64(encoded);
  const std::size_t size = body.size();
  body.append(openai::body_padding, '\0');
  const std::string path = text_or(record, "path", "");
  openai::InspectOptions options;
  options.path = model::path_label(path.substr(0, path.find('?')));
  options.prompt_bytes = 1U << 20U;
  options.compat = true;
  openai::Inspection inspection;
  openai::Refusal refusal;
  Answer answer;
  if (openai::inspect(std::string_view(body).substr(0, size), options, inspection, refusal)) {
    answer.model = inspection.model;
    answer.prompt = inspection.prompt;
    answer.input_tokens = inspection.prompt_tokens_estimate;
    return answer;
  }
  answer.status = openai::status(refusal.kind, true);
  answer.stage = openai::code(refusal.kind);
  answer.client_body = openai::render_error(refusal.kind, refusal.message, {.compat = true}).body;
  return answer;
}

Answer recorded(element record) {
  Answer answer;
  std::int64_t status = 0;
  if (record["status"].get(status) == simdjson::SUCCESS) {
    answer.status = static_cast<int>(status);
    answer.stage = text_or(record, "stage", "");
    answer.client_body = text_or(record, "client_body", "");
    return answer;
  }
  answer.model = text_or(record, "model", "");
  answer.prompt = text_or(record, "prompt", "");
  answer.input_tokens = std::int64_t(record["input_tokens"]);
  return answer;
}

Answer ours(const YAML::Node& expect) {
  Answer answer;
  if (expect["status"]) {
    answer.status = expect["status"].as<int>();
    answer.stage = expect["stage"].as<std::string>();
    return answer;
  }
  answer.model = expect["model"].as<std::string>();
  answer.prompt = expect["prompt"].as<std::string>();
  answer.input_tokens = expect["input_tokens"].as<std::int64_t>();
  return answer;
}

bool same(const Answer& a, const Answer& b) {
  return a.status == b.status && a.stage == b.stage && a.model == b.model && a.prompt == b.prompt &&
         a.input_tokens == b.input_tokens;
}

/// Texts that are the router's own; all others are of Go's JSON library.
bool own_text(const std::string& body) {
  static constexpr std::array<std::string_view, 3> own{"\"model not found\"", "\"prompt not found\"",
                                                       "\"invalid request body\""};
  return std::find(own.begin(), own.end(), body) != own.end();
}

void check(const Answer& got, const Answer& want) {
  CHECK(got.status == want.status);
  CHECK(got.stage == want.stage);
  CHECK(got.model == want.model);
  CHECK(got.prompt == want.prompt);
  CHECK(got.input_tokens == want.input_tokens);
}

TEST_CASE("golden prompt vectors", "[golden]") {
  Deviations deviations("prompt");
  const int count = for_each_record("prompt", [&](element record) {
    INFO(std::string_view(record["id"]));
    const Answer got = ask(record);
    const Answer want = recorded(record);
    if (!same(got, want)) {
      if (const YAML::Node* expect = deviations.record(text_or(record, "id", ""))) return check(got, ours(*expect));
    }
    check(got, want);
    if (own_text(want.client_body) || own_text(got.client_body)) {
      CHECK(got.client_body == want.client_body);
    } else if (want.status != 200) {
      deviations.rule("library_texts");
    }
  });
  CHECK(count == 284);
  CHECK(deviations.unused().empty());
}

}  // namespace
}  // namespace warmroute::test
