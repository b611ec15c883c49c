#pragma once
// The requests that the load generator sends: a pool of conversations whose prefixes hit and miss.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

struct Shape {
  std::string path = "/v1/chat/completions";
  std::string model = "m";
  int models = 1;  // above 1, conversations are for model, model-00001, model-00002 …, as many as the pool reaches
  std::size_t prompt_bytes = 1500;
  int pool = 300;
  int new_percent = 10;  // requests that nobody has sent before, from their first byte on; 0: nothing ever is new
  int events = 0;        // above 0: a stream of so many events
  long every_us = 0;
};

/// One request as pieces to be written: shared text, and two stamps of its own.
struct Request {
  static constexpr std::size_t stamp_bytes = 12;
  const std::array<std::string, 3>* text = nullptr;
  std::array<char, stamp_bytes> first{};  // at the prompt's start
  std::array<char, stamp_bytes> last{};   // in the last question
  [[nodiscard]] std::size_t size() const noexcept;
  /// The `index`th of five pieces, in order.
  [[nodiscard]] std::string_view piece(std::size_t index) const noexcept;
};

/// Ten conversations share a system prompt of a quarter of the size, each has its own history, and each request ends
/// with a question of its own. Bodies of one pool have the same size.
class Conversations {
 public:
  Conversations(const Shape& shape, int port);
  Request next();

 private:
  std::uint32_t random();
  std::vector<std::array<std::string, 3>> texts_;
  int new_percent_;
  std::uint64_t sent_ = 0;
  std::uint32_t state_ = 2463534242U;
};

}  // namespace bench
