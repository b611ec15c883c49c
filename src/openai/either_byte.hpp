#pragma once
// Next occurrence of one of two bytes, by memchr. Both answers are remembered, so a text is searched once for each
// byte even when one of them is rare or missing.

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace warmroute::openai {

class EitherByte {
 public:
  EitherByte(char first, char second, const char* begin, const char* end) noexcept
      : first_(first), second_(second), end_(end), first_at_(begin), second_at_(begin) {
    if (begin != end) {
      first_at_ = next(first_, begin);
      second_at_ = next(second_, begin);
    }
  }

  /// First position at or behind `from` that holds one of the bytes, else the end. `from` must not go backwards.
  [[nodiscard]] const char* find(const char* from) noexcept {
    if (first_at_ < from) first_at_ = next(first_, from);
    if (second_at_ < from) second_at_ = next(second_, from);
    return std::min(first_at_, second_at_);
  }

 private:
  [[nodiscard]] const char* next(char byte, const char* from) const noexcept {
    const void* found = from == end_ ? nullptr : std::memchr(from, byte, static_cast<std::size_t>(end_ - from));
    return found == nullptr ? end_ : static_cast<const char*>(found);
  }

  char first_, second_;
  const char* end_;
  const char* first_at_;
  const char* second_at_;
};

}  // namespace warmroute::openai
