#pragma once
// Reads HTTP/1.1 answers of a proxy that is known to be sound: no more checks than counting needs.

#include <cstddef>
#include <string>
#include <string_view>

namespace bench {

class AnswerReader {
 public:
  enum class State { more, complete, broken };

  /// Takes what was read and sets `used` to how much of it belonged to the answer under way.
  State feed(std::string_view bytes, std::size_t& used);
  void reset();

  [[nodiscard]] int status() const noexcept { return status_; }
  /// Server-sent events (blank lines in the body) seen since the last call.
  int take_events() noexcept;
  /// Of the answer just completed: the connection cannot be used again.
  [[nodiscard]] bool closes() const noexcept { return closes_; }

 private:
  enum class Part { head, fixed, chunk_size, chunk, chunk_end, trailer };
  bool read_head();
  void count_events(std::string_view body) noexcept;

  Part part_ = Part::head;
  std::string line_;  // the head, or the line of a chunk's size, as far as it came
  std::size_t left_ = 0;
  int status_ = 0;
  int events_ = 0;
  bool closes_ = false;
  bool after_newline_ = false;
};

}  // namespace bench
