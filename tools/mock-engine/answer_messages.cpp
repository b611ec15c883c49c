// Anthropic's /v1/messages. Its input_tokens do not contain the cached ones.

#include <fmt/format.h>

#include "answer.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {

std::string usage_json(const Usage& u, std::size_t output_tokens) {
  return fmt::format(R"({{"input_tokens":{},"cache_creation_input_tokens":0,"cache_read_input_tokens":{},)"
                     R"("output_tokens":{}}})",
                     u.prompt_tokens - u.cached_tokens, u.cached_tokens, output_tokens);
}

std::string_view stop_reason(const Job& job) {
  if (!job.tool_name.empty()) return "tool_use";
  return job.limited ? "max_tokens" : "end_turn";
}

std::string message_json(const Job& job, std::string_view content, std::string_view reason, std::string_view usage) {
  return fmt::format(R"({{"id":"{}","type":"message","role":"assistant","model":{},"content":[{}],"stop_reason":{},)"
                     R"("stop_sequence":null,"usage":{}}})",
                     job.id, json_string(job.model), content, reason.empty() ? "null" : json_string(reason), usage);
}

std::string tool_json(const Job& job, std::string_view input) {
  return fmt::format(R"({{"type":"tool_use","id":"toolu_{}","name":{},"input":{}}})", job.id,
                     json_string(job.tool_name), input);
}

class MessagesWriter final : public EventWriter {
 public:
  MessagesWriter(const Job& job, const Usage& usage) : job_(job), usage_(usage), tool_(!job.tool_name.empty()) {}

  void open(std::string& out) override {
    event(out, "message_start", "\"message\":" + message_json(job_, "", "", usage_json(usage_, 1)));
    event(out, "content_block_start",
          R"("index":0,"content_block":)" + (tool_ ? tool_json(job_, "{}") : R"({"type":"text","text":""})"));
    out += "event: ping\ndata: {\"type\":\"ping\"}\n\n";
  }

  void token(std::string& out, std::size_t index) override {
    event(out, "content_block_delta",
          fmt::format(R"("index":0,"delta":{{"type":"{}","{}":{}}})", tool_ ? "input_json_delta" : "text_delta",
                      tool_ ? "partial_json" : "text", json_string(piece(job_, index))));
  }

  void close(std::string& out) override {
    event(out, "content_block_stop", R"("index":0)");
    event(out, "message_delta",
          fmt::format(R"("delta":{{"stop_reason":"{}","stop_sequence":null}},"usage":{})", stop_reason(job_),
                      usage_json(usage_, usage_.completion_tokens)));
    out += "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
  }

 private:
  static void event(std::string& out, std::string_view type, std::string_view members) {
    fmt::format_to(std::back_inserter(out), "event: {0}\ndata: {{\"type\":\"{0}\",{1}}}\n\n", type, members);
  }

  const Job& job_;
  Usage usage_;
  bool tool_;
};

}  // namespace

std::string whole_messages(const Job& job, const Usage& usage) {
  const std::string content = job.tool_name.empty() ? R"({"type":"text","text":)" + json_string(answer_text(job)) + "}"
                                                    : tool_json(job, job.tool_arguments);
  return message_json(job, content, stop_reason(job), usage_json(usage, usage.completion_tokens));
}
std::unique_ptr<EventWriter> make_messages_writer(const Job& job, const Usage& usage) {
  return std::make_unique<MessagesWriter>(job, usage);
}

}  // namespace warmroute::mock
