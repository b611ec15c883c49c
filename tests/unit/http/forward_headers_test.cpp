#include "http/forward_headers.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "http/message_parser.hpp"

using namespace warmroute;

namespace {

template <bool IsRequest>
http::Head parse(const std::string& bytes) {
  http::MessageParser<IsRequest> parser;
  http::Head head;
  REQUIRE(parser.parse_head(bytes, head).has_value());
  return head;
}

}  // namespace

TEST_CASE("requests lose hop-by-hop headers and keep the rest as written", "[http][forward]") {
  const std::string bytes =
      "POST /v1/x?q=1 HTTP/1.1\r\nHost: Router:80\r\nConnection: X-Local, close\r\nX-Local: 1\r\nKeep-Alive: "
      "timeout=5\r\n"
      "TE: trailers\r\nProxy-Authorization: p\r\nUpgrade: h2c\r\nTrailer: x\r\nExpect: 100-continue\r\n"
      "authorization: Bearer t\r\nAccept-Encoding: gzip, br\r\nX-Twice: a\r\nX-Twice: b\r\nContent-Length: 9\r\n"
      "X-Request-ID: theirs\r\n\r\n";
  const auto head = parse<true>(bytes);
  http::RequestForwarding forwarding;
  forwarding.target = head.target;
  forwarding.request_id = "id-1";
  forwarding.has_body = true;
  forwarding.content_length = 12;
  std::string out;
  http::append_request_head(out, head, forwarding);
  CHECK(out ==
        "POST /v1/x?q=1 HTTP/1.1\r\nHost: Router:80\r\nauthorization: Bearer t\r\nAccept-Encoding: gzip, br\r\n"
        "X-Twice: a\r\nX-Twice: b\r\nx-request-id: id-1\r\nContent-Length: 12\r\n\r\n");
}

TEST_CASE("a Connection header cannot nominate Host away", "[http][forward]") {
  const auto bytes = std::string("GET / HTTP/1.1\r\nHost: r\r\nConnection: Host\r\n\r\n");
  const auto head = parse<true>(bytes);
  http::RequestForwarding forwarding;
  forwarding.target = "/";
  forwarding.request_id = "i";
  std::string out;
  http::append_request_head(out, head, forwarding);
  CHECK(out == "GET / HTTP/1.1\r\nHost: r\r\nx-request-id: i\r\n\r\n");
}

TEST_CASE("forwarded headers are appended to what came", "[http][forward]") {
  const auto bytes =
      std::string("GET / HTTP/1.1\r\nHost: r\r\nX-Forwarded-For: 10.1.1.1\r\nX-Forwarded-Proto: https\r\n\r\n");
  const auto head = parse<true>(bytes);
  http::RequestForwarding forwarding;
  forwarding.target = "/";
  forwarding.request_id = "i";
  forwarding.forwarded_for = "10.2.2.2";
  forwarding.forwarded_proto = "http";
  std::string out;
  http::append_request_head(out, head, forwarding);
  CHECK(out.find("X-Forwarded-For: 10.1.1.1, 10.2.2.2\r\n") != std::string::npos);
  CHECK(out.find("X-Forwarded-Proto: http\r\n") != std::string::npos);
  CHECK(out.find("https") == std::string::npos);
}

TEST_CASE("responses lose hop-by-hop headers and get id, date and framing", "[http][forward]") {
  const auto bytes = std::string(
      "HTTP/1.1 201 Made It\r\nServer: a\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
      "Content-Length: 7\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nX-Request-Id: engine's\r\n\r\n");
  const auto head = parse<false>(bytes);
  http::ResponseForwarding forwarding;
  forwarding.request_id = "id";
  forwarding.date = "D";
  forwarding.framing = {http::Framing::Kind::chunked, 0};
  std::string out;
  http::append_response_head(out, head, forwarding);
  CHECK(out ==
        "HTTP/1.1 201 Made It\r\nServer: a\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nx-request-id: id\r\nDate: D\r\n"
        "Transfer-Encoding: chunked\r\n\r\n");

  const auto dated = std::string("HTTP/1.1 200 OK\r\nDate: theirs\r\nContent-Length: 7\r\n\r\n");
  const auto dated_head = parse<false>(dated);
  forwarding.framing = {http::Framing::Kind::length, 7};
  forwarding.close = true;
  out.clear();
  http::append_response_head(out, dated_head, forwarding);
  CHECK(out == "HTTP/1.1 200 OK\r\nDate: theirs\r\nx-request-id: id\r\nContent-Length: 7\r\nConnection: close\r\n\r\n");
}

TEST_CASE("request ids", "[http][forward]") {
  CHECK(http::usable_request_id("a b!~"));
  CHECK(http::usable_request_id(std::string(128, 'x')));
  CHECK_FALSE(http::usable_request_id(std::string(129, 'x')));
  CHECK_FALSE(http::usable_request_id(""));
  CHECK_FALSE(http::usable_request_id("a\tb"));
  CHECK_FALSE(http::usable_request_id("\xc3\xa9"));
  std::string uuid;
  http::append_uuid(uuid);
  REQUIRE(uuid.size() == 36);
  CHECK(uuid[14] == '4');
  CHECK(std::string("89ab").find(uuid[19]) != std::string::npos);
  CHECK(std::count(uuid.begin(), uuid.end(), '-') == 4);
  std::string other;
  http::append_uuid(other);
  CHECK(uuid != other);
}

TEST_CASE("token lists", "[http][head]") {
  CHECK(http::list_holds("a, Close ,b", "close"));
  CHECK_FALSE(http::list_holds("closed", "close"));
  CHECK_FALSE(http::list_holds("", "close"));
  CHECK(http::equals_ignoring_case("Content-TYPE", "content-type"));
}
