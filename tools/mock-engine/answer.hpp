#pragma once
// The bytes of an answer, per kind of request: whole, or as the events of a stream.

#include <memory>
#include <string>

#include "job.hpp"

namespace warmroute::mock {

struct Usage {
  std::size_t prompt_tokens = 0;
  std::size_t cached_tokens = 0;
  std::size_t completion_tokens = 0;  ///< of all choices
};

/// The JSON body of an answer that is not streamed.
[[nodiscard]] std::string whole_answer(const Job& job, const Usage& usage);

/// SSE events; each function appends complete events with their empty line.
class EventWriter {
 public:
  virtual ~EventWriter() = default;
  virtual void open(std::string& out) = 0;
  /// Token `index` of every choice.
  virtual void token(std::string& out, std::size_t index) = 0;
  virtual void close(std::string& out) = 0;
};

/// `job` must outlive the writer.
[[nodiscard]] std::unique_ptr<EventWriter> make_event_writer(const Job& job, const Usage& usage);

/// The text that is answered when no tool is called, and the piece of it or of the arguments that is token `index`.
[[nodiscard]] std::string answer_text(const Job& job);
[[nodiscard]] std::string_view piece(const Job& job, std::size_t index);

// One per family of endpoints.
[[nodiscard]] std::string whole_responses(const Job& job, const Usage& usage);
[[nodiscard]] std::string whole_messages(const Job& job, const Usage& usage);
[[nodiscard]] std::string whole_pooling(const Job& job, const Usage& usage);
[[nodiscard]] std::unique_ptr<EventWriter> make_responses_writer(const Job& job, const Usage& usage);
[[nodiscard]] std::unique_ptr<EventWriter> make_messages_writer(const Job& job, const Usage& usage);

}  // namespace warmroute::mock
