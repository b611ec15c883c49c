#include "conversations.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <string>

using bench::Conversations;
using bench::Request;
using bench::Shape;

namespace {

std::string whole(const Request& request) {
  std::string text;
  for (std::size_t i = 0; i < 5; ++i) text += request.piece(i);
  return text;
}

std::string body(const Request& request) {
  const auto text = whole(request);
  return text.substr(text.find("\r\n\r\n") + 4);
}

}  // namespace

TEST_CASE("requests say their length and differ in their last question", "[bench]") {
  Conversations conversations(Shape{}, 8080);
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) {
    const auto request = conversations.next();
    const auto text = whole(request);
    CHECK(text.size() == request.size());
    const auto sent = body(request);
    CHECK(text.find("\r\nContent-Length: " + std::to_string(sent.size()) + "\r\n") != std::string::npos);
    CHECK(sent.size() > 1500);
    CHECK(sent.size() < 1800);
    CHECK(seen.insert(sent).second);
  }
}

TEST_CASE("without new ones, the pool's conversations come again as they are", "[bench]") {
  Shape shape;
  shape.new_percent = 0;
  shape.pool = 7;
  Conversations conversations(shape, 8080);
  std::set<std::string> seen;
  for (int i = 0; i < 300; ++i) seen.insert(body(conversations.next()));
  CHECK(seen.size() == 7);
}

TEST_CASE("a share of requests starts with what nobody sent before", "[bench]") {
  Shape shape;
  shape.new_percent = 10;
  Conversations conversations(shape, 8080);
  std::multiset<std::string> starts;
  constexpr int requests = 3000;
  for (int i = 0; i < requests; ++i) {
    const auto request = conversations.next();
    starts.insert(std::string(request.piece(1)));
  }
  int fresh = 0;
  for (const auto& start : starts) fresh += starts.count(start) == 1 ? 1 : 0;
  CHECK(fresh > requests / 15);
  CHECK(fresh < requests / 7);
}

TEST_CASE("streams tell the engine what to send, and models are spread", "[bench]") {
  Shape shape;
  shape.events = 100;
  shape.every_us = 10'000;
  shape.models = 50;
  Conversations conversations(shape, 8080);
  std::set<std::string> models;
  for (int i = 0; i < 500; ++i) {
    const auto sent = body(conversations.next());
    CHECK(sent.find(" bench-100-10000\"}]}") != std::string::npos);
    CHECK(sent.find("\"stream\":true") != std::string::npos);
    models.insert(sent.substr(0, sent.find(',')));
  }
  CHECK(models.size() > 40);
}
