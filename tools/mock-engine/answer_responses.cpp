// /v1/responses.

#include <fmt/format.h>

#include "answer.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {

std::string usage_json(const Usage& u) {
  return fmt::format(R"({{"input_tokens":{},"input_tokens_details":{{"cached_tokens":{}}},"output_tokens":{},)"
                     R"("output_tokens_details":{{"reasoning_tokens":0}},"total_tokens":{}}})",
                     u.prompt_tokens, u.cached_tokens, u.completion_tokens, u.prompt_tokens + u.completion_tokens);
}

std::string part_json(std::string_view text) {
  return R"({"type":"output_text","annotations":[],"logprobs":[],"text":)" + json_string(text) + "}";
}

std::string item_json(const Job& job, std::string_view status, bool with_content) {
  if (!job.tool_name.empty())
    return fmt::format(R"({{"id":"fc_{0}","type":"function_call","call_id":"call_{0}","name":{1},"arguments":{2},)"
                       R"("status":"{3}"}})",
                       job.id, json_string(job.tool_name), json_string(with_content ? job.tool_arguments : ""), status);
  return fmt::format(R"({{"id":"msg_{}","type":"message","role":"assistant","status":"{}","content":[{}]}})", job.id,
                     status, with_content ? part_json(answer_text(job)) : "");
}

std::string response_json(const Job& job, const Usage* usage) {
  const bool done = usage != nullptr;
  const std::string_view status = !done ? "in_progress" : job.limited ? "incomplete" : "completed";
  return fmt::format(
      R"({{"id":"{}","object":"response","created_at":{},"model":{},"status":"{}","error":null,)"
      R"("incomplete_details":{},"instructions":null,"metadata":{{}},"output":[{}],"parallel_tool_calls":true,)"
      R"("temperature":1.0,"tool_choice":"auto","tools":[],"top_p":1.0,"usage":{}}})",
      job.id, job.created, json_string(job.model), status,
      done && job.limited ? R"({"reason":"max_output_tokens"})" : "null",
      done ? item_json(job, job.limited ? "incomplete" : "completed", true) : "", done ? usage_json(*usage) : "null");
}

class ResponsesWriter final : public EventWriter {
 public:
  ResponsesWriter(const Job& job, const Usage& usage) : job_(job), usage_(usage), tool_(!job.tool_name.empty()) {}

  void open(std::string& out) override {
    event(out, "response.created", "\"response\":" + response_json(job_, nullptr));
    event(out, "response.in_progress", "\"response\":" + response_json(job_, nullptr));
    event(out, "response.output_item.added", R"("output_index":0,"item":)" + item_json(job_, "in_progress", false));
    if (!tool_) event(out, "response.content_part.added", place() + R"(,"content_index":0,"part":)" + part_json(""));
  }

  void token(std::string& out, std::size_t index) override {
    const std::string delta = R"(,"delta":)" + json_string(piece(job_, index));
    if (tool_)
      event(out, "response.function_call_arguments.delta", place() + delta);
    else
      event(out, "response.output_text.delta", place() + R"(,"content_index":0,"logprobs":[])" + delta);
  }

  void close(std::string& out) override {
    if (tool_) {
      event(out, "response.function_call_arguments.done",
            place() + fmt::format(R"(,"name":{},"arguments":{})", json_string(job_.tool_name),
                                  json_string(job_.tool_arguments)));
    } else {
      const std::string text = answer_text(job_);
      event(out, "response.output_text.done",
            place() + R"(,"content_index":0,"logprobs":[],"text":)" + json_string(text));
      event(out, "response.content_part.done", place() + R"(,"content_index":0,"part":)" + part_json(text));
    }
    const std::string_view status = job_.limited ? "incomplete" : "completed";
    event(out, "response.output_item.done", R"("output_index":0,"item":)" + item_json(job_, status, true));
    event(out, job_.limited ? "response.incomplete" : "response.completed",
          "\"response\":" + response_json(job_, &usage_));
  }

 private:
  [[nodiscard]] std::string place() const {
    return fmt::format(R"("item_id":"{}_{}","output_index":0)", tool_ ? "fc" : "msg", job_.id);
  }
  void event(std::string& out, std::string_view type, std::string_view members) {
    fmt::format_to(std::back_inserter(out), "event: {0}\ndata: {{\"type\":\"{0}\",\"sequence_number\":{1},{2}}}\n\n",
                   type, sequence_++, members);
  }

  const Job& job_;
  Usage usage_;
  bool tool_;
  std::size_t sequence_ = 0;
};

}  // namespace

std::string whole_responses(const Job& job, const Usage& usage) { return response_json(job, &usage); }
std::unique_ptr<EventWriter> make_responses_writer(const Job& job, const Usage& usage) {
  return std::make_unique<ResponsesWriter>(job, usage);
}

}  // namespace warmroute::mock
