// /v1/chat/completions and /v1/completions, and the choice of the family for the rest.

#include <fmt/format.h>

#include "answer.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {

std::string usage_json(const Usage& u) {
  return fmt::format(
      R"({{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},"prompt_tokens_details":{{"cached_tokens":{}}}}})",
      u.prompt_tokens, u.prompt_tokens + u.completion_tokens, u.completion_tokens, u.cached_tokens);
}

std::string_view finish_reason(const Job& job) {
  if (!job.tool_name.empty()) return "tool_calls";
  return job.limited ? "length" : "stop";
}

std::string head_json(const Job& job, std::string_view object) {
  return fmt::format(R"({{"id":"{}","object":"{}","created":{},"model":{},"choices":[)", job.id, object, job.created,
                     json_string(job.model));
}

std::string tool_call_json(const Job& job, std::size_t choice, std::string_view arguments) {
  return fmt::format(R"({{"id":"call_{}_{}","type":"function","function":{{"name":{},"arguments":{}}}}})", job.id,
                     choice, json_string(job.tool_name), json_string(arguments));
}

std::string whole_chat(const Job& job, const Usage& usage) {
  std::string out = head_json(job, "chat.completion");
  const std::string text = json_string(answer_text(job));
  for (std::size_t i = 0; i < job.choices; ++i) {
    if (i > 0) out += ',';
    const std::string message = job.tool_name.empty() ? fmt::format(R"("content":{},"tool_calls":[])", text)
                                                      : fmt::format(R"("content":null,"tool_calls":[{}])",
                                                                    tool_call_json(job, i, job.tool_arguments));
    fmt::format_to(std::back_inserter(out),
                   R"({{"index":{},"message":{{"role":"assistant",{}}},"logprobs":null,"finish_reason":"{}"}})", i,
                   message, finish_reason(job));
  }
  return out + R"(],"usage":)" + usage_json(usage) + "}";
}

std::string whole_completion(const Job& job, const Usage& usage) {
  std::string out = head_json(job, "text_completion");
  const std::string text = json_string(answer_text(job));
  for (std::size_t i = 0; i < job.choices; ++i) {
    if (i > 0) out += ',';
    fmt::format_to(std::back_inserter(out), R"({{"index":{},"text":{},"logprobs":null,"finish_reason":"{}"}})", i, text,
                   finish_reason(job));
  }
  return out + R"(],"usage":)" + usage_json(usage) + "}";
}

class ChatWriter final : public EventWriter {
 public:
  ChatWriter(const Job& job, const Usage& usage)
      : job_(job),
        usage_(usage),
        chat_(job.kind == Kind::chat),
        start_("data: " + head_json(job, chat_ ? "chat.completion.chunk" : "text_completion")) {}

  void open(std::string& out) override {
    if (!chat_) return;
    for (std::size_t i = 0; i < job_.choices; ++i) {
      if (job_.tool_name.empty()) {
        event(out, i, R"("delta":{"role":"assistant","content":""})", "");
        continue;
      }
      std::string call = tool_call_json(job_, i, "");
      call.insert(1, R"("index":0,)");
      event(out, i, R"("delta":{"role":"assistant","content":null,"tool_calls":[)" + call + "]}", "");
    }
  }

  void token(std::string& out, std::size_t index) override {
    std::string member = chat_ ? R"("delta":{"content":)" : R"("text":)";
    if (!job_.tool_name.empty()) member = R"("delta":{"tool_calls":[{"index":0,"function":{"arguments":)";
    append_quoted(member, piece(job_, index));
    if (!job_.tool_name.empty())
      member += "}}]}";
    else if (chat_)
      member += '}';
    for (std::size_t i = 0; i < job_.choices; ++i) event(out, i, member, "");
  }

  void close(std::string& out) override {
    for (std::size_t i = 0; i < job_.choices; ++i)
      event(out, i, chat_ ? R"("delta":{})" : R"("text":"")", finish_reason(job_));
    if (job_.include_usage) out += start_ + R"(],"usage":)" + usage_json(usage_) + "}\n\n";
    out += "data: [DONE]\n\n";
  }

 private:
  void event(std::string& out, std::size_t choice, std::string_view member, std::string_view reason) const {
    fmt::format_to(std::back_inserter(out), R"({}{{"index":{},{},"logprobs":null,"finish_reason":)", start_, choice,
                   member);
    if (reason.empty())
      out += "null}]";
    else
      fmt::format_to(std::back_inserter(out), "\"{}\"}}]", reason);
    // With usage asked for, every other event says that it has none.
    out += job_.include_usage ? ",\"usage\":null}\n\n" : "}\n\n";
  }

  const Job& job_;
  Usage usage_;
  bool chat_;
  std::string start_;
};

}  // namespace

std::string answer_text(const Job& job) { return filler(job.tokens); }

std::string_view piece(const Job& job, std::size_t index) {
  if (job.tool_name.empty()) return filler_token(index);
  return std::string_view(job.tool_arguments).substr(std::min(index * 4, job.tool_arguments.size()), 4);
}

std::string whole_answer(const Job& job, const Usage& usage) {
  switch (job.kind) {
    case Kind::chat:
      return whole_chat(job, usage);
    case Kind::completions:
      return whole_completion(job, usage);
    case Kind::responses:
      return whole_responses(job, usage);
    case Kind::messages:
      return whole_messages(job, usage);
    default:
      return whole_pooling(job, usage);
  }
}

std::unique_ptr<EventWriter> make_event_writer(const Job& job, const Usage& usage) {
  if (job.kind == Kind::responses) return make_responses_writer(job, usage);
  if (job.kind == Kind::messages) return make_messages_writer(job, usage);
  return std::make_unique<ChatWriter>(job, usage);
}

}  // namespace warmroute::mock
