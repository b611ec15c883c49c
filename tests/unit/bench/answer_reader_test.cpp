#include "answer_reader.hpp"

#include <catch2/catch.hpp>
#include <string>

using bench::AnswerReader;
using State = AnswerReader::State;

namespace {

const std::string fixed = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const std::string stream =
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    "a\r\ndata: 1\n\nd\r\n"  // chunks end inside an event and inside the blank line behind one
    "10\r\nata: 2\n\ndata: 3\n\r\n"
    "1\r\n\n\r\n"
    "0\r\nTrailer: x\r\n\r\n";

// Feeds `text` in pieces of `step` bytes; the state after the last one.
State feed(AnswerReader& reader, std::string_view text, std::size_t step) {
  auto state = State::more;
  while (!text.empty() && state == State::more) {
    const auto piece = text.substr(0, step);
    std::size_t used = 0;
    state = reader.feed(piece, used);
    REQUIRE(used <= piece.size());
    if (state == State::more) REQUIRE(used == piece.size());
    text.remove_prefix(used);
  }
  CHECK(text.empty());
  return state;
}

}  // namespace

TEST_CASE("answers are read at every split, and their events counted once", "[bench]") {
  for (std::size_t step = 1; step <= stream.size(); ++step) {
    INFO("step " << step);
    AnswerReader reader;
    CHECK(feed(reader, fixed, step) == State::complete);
    CHECK(reader.status() == 200);
    CHECK_FALSE(reader.closes());
    CHECK(reader.take_events() == 0);
    reader.reset();
    CHECK(feed(reader, stream, step) == State::complete);
    CHECK(reader.closes());
    CHECK(reader.take_events() == 3);
    CHECK(reader.take_events() == 0);
  }
}

TEST_CASE("what follows an answer is left alone", "[bench]") {
  AnswerReader reader;
  std::size_t used = 0;
  CHECK(reader.feed(fixed + fixed, used) == State::complete);
  CHECK(used == fixed.size());
}

TEST_CASE("an answer without a length, and one that is none, are broken", "[bench]") {
  for (const std::string text : {"HTTP/1.1 200 OK\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n\r\n",
                                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
    INFO(text);
    AnswerReader reader;
    std::size_t used = 0;
    CHECK(reader.feed(text, used) == State::broken);
  }
}
