#include "net/fetch.hpp"

#include <catch2/catch.hpp>
#include <optional>

#include "net/task_group.hpp"
#include "support/run_coro.hpp"
#include "support/scripted_engine.hpp"

namespace warmroute::net {
namespace {

using test::http_answer;
using test::ScriptedEngine;
using Reply = ScriptedEngine::Reply;
using std::chrono::milliseconds;

Task<> store(FetchConnection& connection, FetchRequest request, std::optional<Result<FetchResponse>>& out) {
  out = co_await connection.get(std::move(request));
}

FetchRequest request_to(const ScriptedEngine& engine, std::string target = "/metrics") {
  FetchRequest request;
  request.ip = "127.0.0.1";
  request.port = engine.port();
  request.target = std::move(target);
  return request;
}

Result<FetchResponse> get(io_context& io, FetchConnection& connection, FetchRequest request) {
  std::optional<Result<FetchResponse>> out;
  test::run_coro(io, store(connection, std::move(request), out));
  return *out;
}

/// One exchange with an engine that answers with these bytes and then closes or hangs.
Result<FetchResponse> answered(Reply reply, std::size_t body_limit = 1U << 20U,
                               milliseconds timeout = milliseconds(5000)) {
  io_context io;
  ScriptedEngine engine(io, [&](const std::string&, int) { return reply; });
  FetchConnection connection(io);
  auto request = request_to(engine);
  request.body_limit_bytes = body_limit;
  request.timeout = timeout;
  return get(io, connection, std::move(request));
}

}  // namespace

TEST_CASE("fetch reads every framing") {
  const auto body_of = [](Reply reply) {
    const auto response = answered(std::move(reply));
    INFO((response ? "" : response.error().detail));
    REQUIRE(response.has_value());
    CHECK(response->status == 200);
    return response->body;
  };
  CHECK(body_of({http_answer(200, "hello")}) == "hello");
  CHECK(body_of({http_answer(200, "")}).empty());
  CHECK(
      body_of({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nT: v\r\n\r\n"}) ==
      "abcde");
  CHECK(body_of({"HTTP/1.0 200 OK\r\n\r\nuntil the end", true}) == "until the end");
  CHECK(body_of({"HTTP/1.1 100 Continue\r\n\r\n" + http_answer(200, "after")}) == "after");
}

TEST_CASE("fetch sends a complete request and returns status and content type") {
  io_context io;
  ScriptedEngine engine(
      io, [](const std::string&, int) { return Reply{http_answer(404, "nope", "Content-Type: text/plain\r\n")}; });
  FetchConnection connection(io);
  const auto response = get(io, connection, request_to(engine, "/v1/models"));
  REQUIRE(response.has_value());
  CHECK(response->status == 404);
  CHECK(response->content_type == "text/plain");
  CHECK(response->body == "nope");
  REQUIRE(engine.requests().size() == 1);
  CHECK(engine.requests()[0].starts_with("GET /v1/models HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(engine.port()) +
                                         "\r\n"));
}

TEST_CASE("fetch reports what went wrong") {
  const auto code_of = [](const Result<FetchResponse>& response) {
    REQUIRE(response.has_error());
    return response.error().code;
  };
  CHECK(code_of(answered({"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", true})) == Errc::closed);
  CHECK(code_of(answered({"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", true})) == Errc::closed);
  CHECK(code_of(answered({"", true})) == Errc::closed);
  CHECK(code_of(answered({"no http at all\r\n\r\n"})) == Errc::bad_framing);
  CHECK(code_of(answered({http_answer(200, std::string(2000, 'x'))}, 1000)) == Errc::too_large);
  CHECK(code_of(answered({"HTTP/1.1 200 OK\r\n\r\n" + std::string(2000, 'x'), true}, 1000)) == Errc::too_large);
  CHECK(code_of(answered({"HTTP/1.1 200 OK\r\nX: " + std::string(100000, 'x')})) == Errc::head_too_large);
  CHECK(code_of(answered({"", false, true}, 1000, milliseconds(50))) == Errc::timeout);
  CHECK(code_of(answered({"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", false, true}, 1000, milliseconds(50))) ==
        Errc::timeout);

  io_context io;
  FetchConnection connection(io);
  FetchRequest request;
  {
    ScriptedEngine gone(io, nullptr);
    request = request_to(gone);
  }
  CHECK(code_of(get(io, connection, request)) == Errc::refused);
  request.ip = "not-an-address";
  CHECK(code_of(get(io, connection, request)) == Errc::bad_value);
}

TEST_CASE("fetch reads an answer that comes byte by byte") {
  const std::string whole =
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\n\r\n";
  io_context io;
  Acceptor acceptor(io.get_executor(), {boost::asio::ip::make_address("127.0.0.1"), 0});
  FetchConnection connection(io);
  FetchRequest request;
  request.ip = "127.0.0.1";
  request.port = acceptor.local_endpoint().port();
  std::optional<Result<FetchResponse>> out;
  TaskGroup group(io);
  Socket peer(io.get_executor());
  Timer pause(io.get_executor());
  const auto drip = [](Acceptor& listener, Socket& socket, Timer& timer, const std::string& bytes) -> Task<> {
    co_await listener.async_accept(socket, as_result);
    socket.set_option(boost::asio::ip::tcp::no_delay(true));
    for (const char& byte : bytes) {
      co_await boost::asio::async_write(socket, boost::asio::buffer(&byte, 1), as_result);
      timer.expires_after(std::chrono::microseconds(200));  // lets the reader run between two bytes
      co_await timer.async_wait(as_result);
    }
  };
  group.spawn("drip", drip(acceptor, peer, pause, whole));
  test::run_coro(io, store(connection, request, out));
  REQUIRE(out->has_value());
  CHECK((*out)->body == "abc0123456789abcdef");
}

TEST_CASE("a connection is reused, and replaced when the engine had closed it") {
  io_context io;
  ScriptedEngine engine(
      io, [](const std::string&, int connection) { return Reply{http_answer(200, std::to_string(connection))}; });
  FetchConnection connection(io);
  const auto body = [&] {
    const auto response = get(io, connection, request_to(engine));
    REQUIRE(response.has_value());
    return response->body;
  };
  CHECK(body() == "1");
  CHECK(body() == "1");
  engine.drop_connections();
  CHECK(body() == "2");
  CHECK(body() == "2");
  CHECK(engine.connections() == 2);
}

TEST_CASE("a fresh connection that is closed without an answer is not tried again") {
  io_context io;
  ScriptedEngine engine(io, [](const std::string&, int) { return Reply{"", true}; });
  FetchConnection connection(io);
  CHECK(get(io, connection, request_to(engine)).has_error());
  CHECK(engine.requests().size() == 1);
}

TEST_CASE("a connection is not kept after Connection: close, surplus bytes, or for another address") {
  io_context io;
  std::string headers, surplus;
  ScriptedEngine engine(io, [&](const std::string&, int) { return Reply{http_answer(200, "x", headers) + surplus}; });
  ScriptedEngine other(io, [](const std::string&, int) { return Reply{http_answer(200, "other")}; });
  FetchConnection connection(io);
  SECTION("close") { headers = "Connection: close\r\n"; }
  SECTION("surplus") { surplus = "HTTP/1.1 200 OK\r\n"; }
  REQUIRE(get(io, connection, request_to(engine)).has_value());
  REQUIRE(get(io, connection, request_to(engine)).has_value());
  CHECK(engine.connections() == (headers.empty() && surplus.empty() ? 1 : 2));
  CHECK(get(io, connection, request_to(other))->body == "other");
}

TEST_CASE("the time limit covers the whole exchange and leaves the connection usable") {
  io_context io;
  bool hang = true;
  ScriptedEngine engine(io, [&](const std::string&, int) {
    return Reply{hang ? "" : http_answer(200, "x"), false, hang};
  });
  FetchConnection connection(io);
  auto request = request_to(engine);
  request.timeout = milliseconds(40);
  const auto first = get(io, connection, request);
  REQUIRE(first.has_error());
  CHECK(first.error().code == Errc::timeout);
  hang = false;
  request.timeout = milliseconds(5000);
  CHECK(get(io, connection, request).has_value());
}

TEST_CASE("cancel ends a running exchange, and so does the owner's end") {
  io_context io;
  ScriptedEngine engine(io, [](const std::string&, int) { return Reply{"HTTP/1.1 200 OK\r\n", false, true}; });
  auto connection = std::make_unique<FetchConnection>(io);
  std::optional<Result<FetchResponse>> out;
  TaskGroup group(io);
  group.spawn("get", store(*connection, request_to(engine), out));
  REQUIRE(test::run_until(io, [&] { return engine.requests().size() == 1; }));
  SECTION("cancel") { connection->cancel(); }
  SECTION("destroyed") { connection.reset(); }
  REQUIRE(test::run_until(io, [&] { return out.has_value(); }));
  REQUIRE(out->has_error());
  CHECK(out->error().code == Errc::cancelled);
  CHECK(test::run_until(io, [&] { return engine.open() == 0; }));
}

TEST_CASE("terminal cancellation of the coroutine closes the connection") {
  io_context io;
  ScriptedEngine engine(io, [](const std::string&, int) { return Reply{"", false, true}; });
  FetchConnection connection(io);
  std::optional<Result<FetchResponse>> out;
  TaskGroup group(io);
  group.spawn("get", store(connection, request_to(engine), out));
  REQUIRE(test::run_until(io, [&] { return engine.requests().size() == 1; }));
  group.cancel_all();
  CHECK(test::run_until(io, [&] { return group.running() == 0 && engine.open() == 0; }));
}

TEST_CASE("an exchange may be under way when everything ends") {
  io_context io;
  ScriptedEngine engine(io, [](const std::string&, int) { return Reply{"", false, true}; });
  FetchConnection connection(io);
  std::optional<Result<FetchResponse>> out;
  TaskGroup group(io);
  group.spawn("get", store(connection, request_to(engine), out));
  REQUIRE(test::run_until(io, [&] { return engine.requests().size() == 1; }));
  CHECK_FALSE(out.has_value());
}

TEST_CASE("fetch speaks IPv6") {
  io_context io;
  std::optional<ScriptedEngine> engine;
  try {
    engine.emplace(
        io, [](const std::string&, int) { return Reply{http_answer(200, "six")}; }, "::1");
  } catch (const boost::system::system_error&) {
    WARN("no IPv6 on this machine");
    return;
  }
  FetchConnection connection(io);
  auto request = request_to(*engine);
  request.ip = "::1";
  CHECK(get(io, connection, request)->body == "six");
  CHECK(engine->requests()[0].find("Host: [::1]:") != std::string::npos);
}

}  // namespace warmroute::net
