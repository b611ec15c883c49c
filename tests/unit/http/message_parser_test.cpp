#include "http/message_parser.hpp"

#include <catch2/catch.hpp>
#include <string>

using namespace warmroute;
using http::BodyState;
using http::Framing;
using http::HeadEnd;

namespace {

std::string request(std::string_view fields, std::string_view line = "POST /v1/completions HTTP/1.1") {
  return std::string(line) + "\r\n" + std::string(fields) + "\r\n";
}

Result<http::Head> parse_request(const std::string& bytes) {
  HeadEnd end;
  if (end.feed(bytes) != HeadEnd::State::found) return Error{Errc::bad_framing, Source::client, Retry::never, "no end"};
  http::RequestParser parser;
  http::Head head;
  auto parsed = parser.parse_head(std::string_view(bytes).substr(0, end.size()), head);
  if (!parsed) return parsed.error();
  return head;
}

}  // namespace

TEST_CASE("the end of a head is found at every split", "[http][head]") {
  const std::string bytes = request("Host: r\r\nA: b\r\n") + "body";
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    HeadEnd end;
    auto state = end.feed(std::string_view(bytes).substr(0, split));
    if (state == HeadEnd::State::need_more) state = end.feed(bytes);
    CHECK(state == HeadEnd::State::found);
    CHECK(end.size() == bytes.size() - 4);
  }
}

TEST_CASE("bare line feeds and folded lines end the search", "[http][head]") {
  for (const std::string bytes :
       {"GET / HTTP/1.1\nHost: r\n\n", "GET / HTTP/1.1\r\nHost: r\n\r\n",
        "GET / HTTP/1.1\r\nHost: r\r\nA: b\r\n c\r\n\r\n", "GET / HTTP/1.1\r\nHost: r\r\nA: b\r\n\tc\r\n\r\n", "\n"}) {
    HeadEnd whole;
    CHECK(whole.feed(bytes) == HeadEnd::State::bad_framing);
    HeadEnd bytewise;
    auto state = HeadEnd::State::need_more;
    for (std::size_t size = 1; size <= bytes.size() && state == HeadEnd::State::need_more; ++size)
      state = bytewise.feed(std::string_view(bytes).substr(0, size));
    CHECK(state == HeadEnd::State::bad_framing);
  }
}

TEST_CASE("framing of requests", "[http][framing]") {
  const auto framing = [](std::string_view fields) {
    return parse_request(request("Host: r\r\n" + std::string(fields)));
  };
  CHECK(framing("")->framing.kind == Framing::Kind::none);
  CHECK(framing("Content-Length: 12\r\n")->framing.length == 12);
  CHECK(framing("Transfer-Encoding: chunked\r\n")->framing.kind == Framing::Kind::chunked);
  CHECK(framing("transfer-encoding: Chunked\r\n")->framing.kind == Framing::Kind::chunked);

  for (const char* fields : {"Content-Length: 5\r\nContent-Length: 5\r\n",
                             "Content-Length: 5\r\nContent-Length: 6\r\n",
                             "Content-Length: 5,5\r\n",
                             "Content-Length: +5\r\n",
                             "Content-Length: 0x5\r\n",
                             "Content-Length: -1\r\n",
                             "Content-Length: \r\n",
                             "Content-Length: 99999999999999999999\r\n",
                             "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
                             "Transfer-Encoding: chunked\t\r\n",
                             "Transfer-Encoding: chunked \r\n",
                             "Transfer-Encoding: chunked, gzip\r\n",
                             "Transfer-Encoding: gzip, chunked\r\n",
                             "Transfer-Encoding: gzip\r\n",
                             "Transfer-Encoding: \"chunked,\"\r\n",
                             "Transfer-Encoding: chunked,\r\n",
                             "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                             "Transfer-Encoding: identity\r\n",
                             "Transfer-Encoding: \r\n",
                             "Host: again\r\n",
                             "Bad Name: x\r\n",
                             "A : b\r\n",
                             "A: b\x01\r\n"}) {
    const auto refused = framing(fields);
    INFO(fields);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().code == Errc::bad_framing);
  }
  CHECK(framing("Transfer-Encoding: xchunked\r\n").error().code == Errc::unknown_coding);
}

TEST_CASE("Host and version of requests", "[http][framing]") {
  CHECK_FALSE(parse_request(request("")).has_value());
  CHECK(parse_request(request("", "GET / HTTP/1.0")).has_value());
  CHECK_FALSE(parse_request(request("Host: a b\r\n")).has_value());
  CHECK_FALSE(parse_request(request("Host: a,b\r\n")).has_value());
  CHECK(parse_request(request("Host: \r\n")).has_value());
  CHECK(parse_request(request("Host: [::1]:8080\r\n")).has_value());
  CHECK_FALSE(parse_request(request("Transfer-Encoding: chunked\r\n", "POST / HTTP/1.0")).has_value());
  for (const char* line : {"GET / HTTP/2.0", "PRI * HTTP/2.0", "GET / HTTP/1.2", "GET / HTTP/0.9"})
    CHECK(parse_request(request("Host: r\r\n", line)).error().code == Errc::bad_version);
  CHECK_FALSE(parse_request(request("Host: r\r\n", "GET /")).has_value());
  CHECK_FALSE(parse_request(request("Host: r\r\n", "GET  / HTTP/1.1")).has_value());
}

TEST_CASE("keep-alive follows version and Connection", "[http][head]") {
  CHECK(parse_request(request("Host: r\r\n"))->keep_alive);
  CHECK_FALSE(parse_request(request("Host: r\r\nConnection: x, Close\r\n"))->keep_alive);
  CHECK_FALSE(parse_request(request("", "GET / HTTP/1.0"))->keep_alive);
  CHECK(parse_request(request("Connection: keep-alive\r\n", "GET / HTTP/1.0"))->keep_alive);
}

TEST_CASE("chunked bodies at every split", "[http][body]") {
  const std::string head = request("Host: r\r\nTransfer-Encoding: chunked\r\n");
  const std::string body = "3;a=\"b\"\r\nabc\r\n0a\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n";
  const std::string next = "GET / HTTP/1.1";
  for (std::size_t split = 0; split <= body.size(); ++split) {
    http::RequestParser parser;
    http::Head parsed;
    REQUIRE(parser.parse_head(head, parsed).has_value());
    std::string payload, pending = body.substr(0, split);
    http::Pieces pieces;
    std::size_t used = 0;
    (void)parser.parse_body(pending, pieces, used);
    for (const auto piece : pieces) payload += piece;
    pending.erase(0, used);
    pending += body.substr(split) + next;
    pieces.clear();
    CHECK(parser.parse_body(pending, pieces, used) == BodyState::complete);
    for (const auto piece : pieces) payload += piece;
    CHECK(payload == "abc0123456789");
    CHECK(pending.substr(used) == next);
    CHECK(parsed.fields.size() == 2);  // the trailer is not one of them
  }
}

TEST_CASE("broken chunks are refused", "[http][body]") {
  for (const std::string body : {"1junk\r\nZ\r\n0\r\n\r\n", "1;a\nb\r\nZ\r\n0\r\n\r\n", "0x1\r\nZ\r\n0\r\n\r\n",
                                 "10000000000000000\r\n", "5\r\nAAAAAXXX\r\n0\r\n\r\n", "0\r\nX: 1\n\r\n0\r\n\r\n",
                                 "1\nZ\r\n0\r\n\r\n", "-1\r\n", "\r\n1\r\nZ", "1 \r\nZ\r\n0\r\n\r\n"}) {
    http::RequestParser parser;
    http::Head head;
    const std::string bytes = request("Host: r\r\nTransfer-Encoding: chunked\r\n");
    REQUIRE(parser.parse_head(bytes, head).has_value());
    http::Pieces pieces;
    std::size_t used = 0;
    INFO(body);
    CHECK(parser.parse_body(body, pieces, used) == BodyState::bad);
  }
}

TEST_CASE("framing of responses", "[http][framing]") {
  const auto parse = [](const std::string& bytes, bool answers_head = false) -> Result<http::Head> {
    http::ResponseParser parser;
    http::Head head;
    auto parsed = parser.parse_head(bytes, head, answers_head);
    if (!parsed) return parsed.error();
    return head;
  };
  CHECK(parse("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n")->framing.length == 3);
  CHECK(parse("HTTP/1.1 200 OK\r\n\r\n")->framing.kind == Framing::Kind::until_close);
  CHECK(parse("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true)->framing.kind == Framing::Kind::none);
  CHECK(parse("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n")->framing.kind == Framing::Kind::none);
  CHECK(parse("HTTP/1.1 304 Not Modified\r\n\r\n")->framing.kind == Framing::Kind::none);
  CHECK(parse("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n")->framing.kind == Framing::Kind::chunked);
  CHECK(parse("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n").error().retry == Retry::next_pod);
  CHECK(parse("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n").error().source == Source::engine);
  CHECK_FALSE(parse("HTTP/2 200\r\n\r\n").has_value());
  for (const char* status : {"000", "024", "099"})
    CHECK(parse("HTTP/1.1 " + std::string(status) + " No\r\n\r\n").error().retry == Retry::next_pod);
}

TEST_CASE("a body until close is complete at the close, a length is not", "[http][body]") {
  const std::string open_ended = "HTTP/1.1 200 OK\r\n\r\n", counted = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
  http::Head head;
  http::Pieces pieces;
  std::size_t used = 0;
  http::ResponseParser until_close;
  REQUIRE(until_close.parse_head(open_ended, head).has_value());
  CHECK(until_close.parse_body("abc", pieces, used) == BodyState::need_more);
  CHECK(until_close.complete_at_eof());
  http::ResponseParser length;
  REQUIRE(length.parse_head(counted, head).has_value());
  CHECK(length.parse_body("abc", pieces, used) == BodyState::need_more);
  CHECK_FALSE(length.complete_at_eof());
}
