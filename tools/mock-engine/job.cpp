#include "job.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <chrono>

#include "http/inflate.hpp"
#include "pd.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {

namespace dom = simdjson::dom;

std::string_view text_of(dom::element value) {
  std::string_view text;
  return value.get(text) ? std::string_view{} : text;
}

/// A string, or the text parts of a list of content parts.
void append_content(std::string& out, dom::element content) {
  dom::array parts;
  out += text_of(content);
  if (content.get(parts)) return;
  bool first = true;
  for (const dom::element part : parts) {
    std::string_view text;
    if (part["text"].get(text) && part["content"].get(text)) continue;
    if (!first) out += '\n';
    first = false;
    out += text;
  }
}

void append_turn(std::string& out, std::string_view role, dom::element content) {
  out += "<|im_start|>";
  out += role;
  out += '\n';
  append_content(out, content);
  out += "<|im_end|>\n";
}

void append_conversation(std::string& out, dom::element list) {
  dom::array messages;
  if (list.get(messages)) return;
  for (const dom::element message : messages) {
    dom::element content;
    std::string_view role;
    if (message["role"].get(role)) role = "user";
    if (!message["content"].get(content)) append_turn(out, role, content);
  }
}

/// A token id as the four bytes that one token of text takes.
void append_token_id(std::string& out, std::uint64_t id) {
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>((id >> shift) & 0xFFU);
}

/// A string, token ids, or a list of either.
void read_inputs(dom::element value, std::vector<std::string>& out) {
  std::string_view text;
  dom::array list;
  if (!value.get(text)) out.emplace_back(text);
  if (value.get(list)) return;
  std::string ids;
  for (const dom::element item : list) {
    std::uint64_t id = 0;
    if (!item.get(id))
      append_token_id(ids, id);
    else
      read_inputs(item, out);
  }
  if (!ids.empty()) out.push_back(std::move(ids));
}

/// Arguments that fit the tool's JSON schema as far as its required members go.
std::string example_arguments(dom::element schema) {
  std::string out = "{";
  dom::array required;
  if (!schema["required"].get(required)) {
    for (const dom::element item : required) {
      const std::string_view name = text_of(item);
      std::string_view type;
      dom::element member;
      if (!schema["properties"][name].get(member) && member["type"].get(type)) type = "";
      if (out.size() > 1) out += ", ";
      append_quoted(out, name);
      if (type == "integer" || type == "number")
        out += ": 1";
      else if (type == "boolean")
        out += ": true";
      else if (type == "array")
        out += ": []";
      else if (type == "object")
        out += ": {}";
      else
        out += ": \"mock\"";
    }
  }
  return out + "}";
}

/// A tool is called when one is offered, not forbidden, and the last turn is not already its result.
void choose_tool(dom::element root, const char* turns, Job& job) {
  dom::array tools;
  if (root["tools"].get(tools) || tools.size() == 0) return;
  dom::element choice;
  std::string_view wanted;
  if (!root["tool_choice"].get(choice)) {
    if (text_of(choice) == "none") return;
    std::string_view type;
    if (!choice["type"].get(type) && type == "none") return;
    if (choice["function"]["name"].get(wanted) && choice["name"].get(wanted)) wanted = {};
  }
  dom::array list;
  if (!root[turns].get(list) && list.size() > 0) {
    const dom::element last = list.at(list.size() - 1).value_unsafe();
    std::string_view mark;
    if (!last["role"].get(mark) && mark == "tool") return;
    if (!last["type"].get(mark) && mark == "function_call_output") return;
    dom::element part;
    if (!last["content"].at(0).get(part) && !part["type"].get(mark) && mark == "tool_result") return;
  }
  for (const dom::element tool : tools) {
    dom::element described = tool;
    (void)tool["function"].get(described);  // chat nests it, responses and messages do not
    std::string_view name;
    if (described["name"].get(name) || (!wanted.empty() && name != wanted)) continue;
    job.tool_name = name;
    dom::element schema;
    const bool missing = described["parameters"].get(schema) != simdjson::SUCCESS &&
                         described["input_schema"].get(schema) != simdjson::SUCCESS;
    job.tool_arguments = missing ? "{}" : example_arguments(schema);
    return;
  }
}

/// Engines put tools in front of the conversation, so they are part of the cached prefix.
void append_tools(std::string& out, dom::element root) {
  dom::element tools;
  if (!root["tools"].get(tools) && !tools.is_null()) out += simdjson::minify(tools) + "\n";
}

void read_prompt(dom::element root, Job& job) {
  std::string prompt;
  dom::element value;
  switch (job.kind) {
    case Kind::chat:
    case Kind::messages:
    case Kind::count:
      append_tools(prompt, root);
      if (!root["system"].get(value)) append_turn(prompt, "system", value);
      if (!root["messages"].get(value)) append_conversation(prompt, value);
      prompt += "<|im_start|>assistant\n";
      choose_tool(root, "messages", job);
      break;
    case Kind::responses:
      append_tools(prompt, root);
      if (!root["instructions"].get(value) && !value.is_null()) append_turn(prompt, "system", value);
      if (!root["input"].get(value)) {
        if (value.is_string())
          append_turn(prompt, "user", value);
        else
          append_conversation(prompt, value);
      }
      prompt += "<|im_start|>assistant\n";
      choose_tool(root, "input", job);
      break;
    case Kind::tokenize:
      if (!root["messages"].get(value)) append_conversation(prompt, value);
      if (!root["prompt"].get(value)) append_content(prompt, value);
      break;
    case Kind::completions:
      if (!root["prompt"].get(value)) read_inputs(value, job.prompts);
      return;
    case Kind::embeddings:
      if (!root["input"].get(value)) read_inputs(value, job.prompts);
      return;
    case Kind::rerank:
    case Kind::score: {
      std::string_view query;
      (void)root[job.kind == Kind::rerank ? "query" : "text_1"].get(query);  // absent: an empty query
      job.query = query;
      if (!root[job.kind == Kind::rerank ? "documents" : "text_2"].get(value)) read_inputs(value, job.documents);
      for (const auto& document : job.documents) job.prompts.push_back(job.query + "\n" + document);
      return;
    }
  }
  job.prompts.push_back(std::move(prompt));
}

bool missing_input(dom::element root, Kind kind) {
  dom::element value;
  switch (kind) {
    case Kind::chat:
    case Kind::messages:
    case Kind::count:
      return root["messages"].get(value) != simdjson::SUCCESS || !value.is_array();
    case Kind::completions:
      return root["prompt"].get(value) != simdjson::SUCCESS || value.is_null();
    case Kind::responses:
    case Kind::embeddings:
      return root["input"].get(value) != simdjson::SUCCESS || value.is_null();
    case Kind::rerank:
      return root["documents"].get(value) != simdjson::SUCCESS;
    case Kind::score:
      return root["text_2"].get(value) != simdjson::SUCCESS;
    case Kind::tokenize:
      return false;
  }
  return false;
}

std::string_view id_prefix(Kind kind) {
  switch (kind) {
    case Kind::chat:
      return "chatcmpl-";
    case Kind::completions:
      return "cmpl-";
    case Kind::responses:
      return "resp_";
    case Kind::messages:
      return "msg_";
    default:
      return "mock-";
  }
}

}  // namespace

std::optional<Kind> kind_of(std::string_view path) {
  struct Row {
    std::string_view path;
    Kind kind;
  };
  static constexpr Row rows[] = {{"/v1/chat/completions", Kind::chat},
                                 {"/v1/completions", Kind::completions},
                                 {"/v1/responses", Kind::responses},
                                 {"/v1/messages", Kind::messages},
                                 {"/v1/embeddings", Kind::embeddings},
                                 {"/v1/rerank", Kind::rerank},
                                 {"/rerank", Kind::rerank},
                                 {"/v2/rerank", Kind::rerank},
                                 {"/v1/score", Kind::score},
                                 {"/score", Kind::score},
                                 {"/tokenize", Kind::tokenize},
                                 {"/v1/messages/count_tokens", Kind::count}};
  for (const auto& row : rows)
    if (row.path == path) return row.kind;
  return std::nullopt;
}

namespace {

/// The body as JSON text: a gzip one decoded into `decoded`, as by the decoding front that engines are run behind.
std::optional<Reply> readable_body(const Request& request, std::string& decoded, std::string_view& body) {
  constexpr std::size_t limit = std::size_t{256} << 20U;
  body = request.body;
  const auto coding = request.header("content-encoding");
  if (coding.empty() || equals_ignoring_case(coding, "identity")) return std::nullopt;
  if (!equals_ignoring_case(coding, "gzip") && !equals_ignoring_case(coding, "x-gzip"))
    return error_reply(415, fmt::format("Unsupported Content-Encoding: {}", coding));
  if (http::gunzip(request.body, limit, simdjson::SIMDJSON_PADDING, decoded) != http::InflateResult::ok)
    return error_reply(400, "the request body is not valid gzip");
  body = decoded;
  return std::nullopt;
}

}  // namespace

std::optional<Reply> read_job(Kind kind, const Request& request, const Engine& engine, Job& job) {
  if (request.method != "POST") return error_reply(405, "Method Not Allowed");
  std::string decoded;
  std::string_view body;
  if (auto refusal = readable_body(request, decoded, body)) return refusal;
  static dom::parser parser;  // one thread; keeps its buffers between requests
  dom::element root;
  if (const auto error = parser.parse(body.data(), body.size()).get(root))
    return error_reply(400, fmt::format("JSON decode error: {}", simdjson::error_message(error)));
  if (!root.is_object()) return error_reply(400, "the body must be a JSON object");
  job.kind = kind;
  std::string_view model;
  if (!root["model"].get(model))
    job.model = model;
  else if (kind == Kind::tokenize || kind == Kind::rerank || kind == Kind::score)
    job.model = engine.options().models[0];
  else
    return error_reply(400, "Field required: model");
  if (!engine.serves(job.model)) return error_reply(404, fmt::format("The model `{}` does not exist.", job.model));
  if (missing_input(root, kind)) return error_reply(400, "the input of the request is missing");

  static std::uint64_t serial = 0;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  job.created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  job.id = fmt::format("{}{:016x}{:08x}", id_prefix(kind),
                       static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count()), ++serial);
  (void)root["stream"].get(job.stream);                                  // absent: false
  (void)root["stream_options"]["include_usage"].get(job.include_usage);  // absent: false
  read_prompt(root, job);

  std::uint64_t number = 0;
  job.tokens = engine.options().default_tokens;
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens"}) {
    if (root[name].get(number)) continue;
    if (number > 1000000) return error_reply(400, fmt::format("{} is too large: {}", name, number));
    job.tokens = number;
    job.limited = true;
  }
  if (!job.tool_name.empty()) {
    job.tokens = std::max<std::size_t>(1, (job.tool_arguments.size() + 3) / 4);
    job.limited = false;
  }
  std::uint64_t n = 1;
  if (!root["n"].get(n) && (n == 0 || n > 128)) return error_reply(400, "n must be between 1 and 128");
  job.choices = kind == Kind::completions ? n * std::max<std::size_t>(1, job.prompts.size()) : n;
  std::string_view encoding;
  job.base64 = !root["encoding_format"].get(encoding) && encoding == "base64";
  if (!root["dimensions"].get(number) && number > 0 && number <= 65536) job.dimensions = number;
  if (!root["top_n"].get(number)) job.top_n = number;
  if (kind != Kind::chat && kind != Kind::completions && kind != Kind::responses && kind != Kind::messages) {
    job.tokens = 0;
    job.stream = false;
    return std::nullopt;
  }
  if (auto wrong = read_pd(root, engine.options(), job)) {
    job.protocol_error = std::move(*wrong);
    return error_reply(400, "protocol error: " + job.protocol_error);
  }
  return std::nullopt;
}

}  // namespace warmroute::mock
