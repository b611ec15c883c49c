#include "conversations.hpp"

#include <unistd.h>
#include <algorithm>
#include <cstdio>

namespace bench {
namespace {

constexpr int sharers = 10;

// Text without end that conversations take their words from, each from a place of its own.
const std::string& all_words() {
  static const std::string text = [] {
    std::string made;
    std::uint32_t seed = 1;
    while (made.size() < 4U << 20U) {
      seed = seed * 1664525U + 1013904223U;
      for (auto left = seed >> 12U; left > 0; left /= 26) made += static_cast<char>('a' + left % 26);
      made += ' ';
    }
    return made;
  }();
  return text;
}

std::string words(std::size_t place, std::size_t bytes) {
  const auto& text = all_words();
  std::string taken;
  for (auto at = place * 9973 % text.size(); taken.size() < bytes; at = 0)
    taken += std::string_view(text).substr(at, bytes - taken.size());
  return taken;
}

std::array<char, Request::stamp_bytes> stamp(std::uint64_t number) {
  std::array<char, Request::stamp_bytes> digits{};
  for (auto at = digits.rbegin(); at != digits.rend(); ++at, number /= 10) *at = static_cast<char>('0' + number % 10);
  return digits;
}

std::string model_of(const Shape& shape, std::size_t conversation) {
  constexpr std::size_t stride = 7919;  // a prime, so that few conversations reach all over many models
  const auto number = conversation * stride % static_cast<std::size_t>(shape.models);
  if (number == 0) return shape.model;
  std::array<char, 16> suffix{};
  std::snprintf(suffix.data(), suffix.size(), "-%05zu", number);
  return shape.model + suffix.data();
}

}  // namespace

std::size_t Request::size() const noexcept {
  return (*text)[0].size() + (*text)[1].size() + (*text)[2].size() + 2 * stamp_bytes;
}

std::string_view Request::piece(std::size_t index) const noexcept {
  if (index == 1) return {first.data(), first.size()};
  if (index == 3) return {last.data(), last.size()};
  return (*text)[index / 2];
}

Conversations::Conversations(const Shape& shape, int port) : new_percent_(shape.new_percent) {
  // Another run of the generator must not send what this one sent.
  sent_ = static_cast<std::uint64_t>(getpid()) * 100'000U;
  for (int i = 0; i < shape.pool; ++i) {
    const auto number = static_cast<std::size_t>(i);
    std::string body = R"({"model":")" + model_of(shape, number) + '"';
    if (shape.events > 0) body += R"(,"stream":true)";
    body += R"(,"max_tokens":100,"messages":[{"role":"system","content":")";
    const auto shared = shape.prompt_bytes / 4;
    std::array<std::string, 3> text;
    text[0] = body;
    text[1] = " " + words(number / sharers, shared) + R"("},{"role":"user","content":")" +
              words(1000 + number, shape.prompt_bytes - shared) +
              R"("},{"role":"assistant","content":"Yes."},{"role":"user","content":"And question )";
    // What the engine is to do stands in the last message: some routers drop all members they do not know.
    text[2] = shape.events > 0 ? "? bench-" + std::to_string(shape.events) + '-' + std::to_string(shape.every_us) : "?";
    text[2] += R"("}]})";
    const auto length = text[0].size() + text[1].size() + text[2].size() + 2 * Request::stamp_bytes;
    text[0].insert(0, "POST " + shape.path + " HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(port) +
                          "\r\nContent-Type: application/json\r\nAuthorization: Bearer x\r\nContent-Length: " +
                          std::to_string(length) + "\r\n\r\n");
    texts_.push_back(std::move(text));
  }
}

Request Conversations::next() {
  Request request;
  ++sent_;
  const auto chosen = random() % texts_.size();
  request.text = &texts_[chosen];
  const bool fresh = random() % 100 < static_cast<std::uint32_t>(new_percent_);
  request.first = stamp(fresh ? sent_ : chosen / sharers);
  request.last = stamp(new_percent_ > 0 ? sent_ : chosen);
  return request;
}

std::uint32_t Conversations::random() {
  state_ ^= state_ << 13U;
  state_ ^= state_ >> 17U;
  state_ ^= state_ << 5U;
  return state_;
}

}  // namespace bench
