#include "kube/client.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <cstdio>
#include <fstream>

#include "kube/rate_limit.hpp"
#include "net/task_group.hpp"
#include "support/run_coro.hpp"
#include "support/scripted_engine.hpp"

namespace warmroute::kube {
namespace {

using std::chrono::milliseconds;
using test::http_answer;
using test::ScriptedEngine;
using Reply = ScriptedEngine::Reply;

Config config_for(std::uint16_t port) {
  Config config;
  config.tls = false;
  config.host = "127.0.0.1";
  config.port = port;
  config.token = "secret";
  return config;
}

Result<Response> ask(net::io_context& io, Client& client, Request request) {
  Result<Response> out = Response();
  test::run_coro(io, [](Client& from, Request what, Result<Response>& into) -> net::Task<> {
    into = co_await from.request(std::move(what));
  }(client, std::move(request), out));
  return out;
}

struct WatchResult {
  Response response;
  std::vector<std::string> lines;
  std::optional<Error> end;
};

WatchResult follow(net::io_context& io, Client& client, WatchRequest request) {
  WatchResult out;
  test::run_coro(io, [](Client& from, WatchRequest what, WatchResult& into) -> net::Task<> {
    auto watch = co_await from.watch(std::move(what));
    if (!watch) {
      into.end = watch.error();
      co_return;
    }
    into.response = watch->response;
    while (watch->stream) {
      auto line = co_await watch->stream->line();
      if (!line) {
        into.end = line.error();
        co_return;
      }
      into.lines.push_back(*line);
    }
  }(client, std::move(request), out));
  return out;
}

std::string chunk(const std::string& bytes) {
  char size[16];
  (void)std::snprintf(size, sizeof size, "%zx", bytes.size());
  return std::string(size) + "\r\n" + bytes + "\r\n";
}

const std::string stream_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

WatchRequest watch_of(milliseconds silence = milliseconds(5000)) {
  WatchRequest request;
  request.path = "/w";
  request.silence = silence;
  return request;
}

}  // namespace

TEST_CASE("kube client: a request carries path, body and token, and its connection is used again") {
  net::io_context io;
  ScriptedEngine server(io, [](const std::string&, int) { return Reply{http_answer(200, "{}")}; });
  auto config = config_for(server.port());
  config.path_prefix = "/prefix";
  Client client(io, config);
  Request patch("PATCH", "/apis/x?a=b");
  patch.content_type = "application/merge-patch+json";
  REQUIRE(ask(io, client, patch)->ok());
  REQUIRE(ask(io, client, Request("GET", "/b"))->body == "{}");
  CHECK(server.connections() == 1);
  REQUIRE(server.requests().size() == 2);
  const auto& head = server.requests()[0];
  CHECK(head.starts_with("PATCH /prefix/apis/x?a=b HTTP/1.1\r\nHost: 127.0.0.1:"));
  CHECK(head.find("\r\nAuthorization: Bearer secret\r\n") != std::string::npos);
  CHECK(head.find("\r\nContent-Length: 0\r\n") != std::string::npos);
}

TEST_CASE("kube client: refusals carry reason, message and the wait asked for") {
  net::io_context io;
  ScriptedEngine server(io, [](const std::string& path, int) {
    const std::string status =
        R"({"kind":"Status","reason":"Forbidden","message":"pods is forbidden","details":{"retryAfterSeconds":7}})";
    if (path == "/a") return Reply{http_answer(403, status)};
    return Reply{http_answer(429, "busy", "Retry-After: 3\r\n")};
  });
  Client client(io, config_for(server.port()));
  const auto first = ask(io, client, Request("GET", "/a"));
  REQUIRE(first.has_value());
  CHECK(first->text() == "403 Forbidden: pods is forbidden");
  CHECK(first->retry_after == std::chrono::seconds(7));
  const auto second = ask(io, client, Request("GET", "/b"));
  CHECK(second->text() == "429");
  CHECK(second->retry_after == std::chrono::seconds(3));
}

TEST_CASE("kube client: a wait of nothing, or of more than a day, was not asked for") {
  net::io_context io;
  std::string header, body;
  ScriptedEngine server(io, [&](const std::string&, int) { return Reply{http_answer(503, body, header)}; });
  Client client(io, config_for(server.port()));
  const auto asked = [&](const std::string& in_header, const std::string& in_body) {
    header = in_header.empty() ? "" : "Retry-After: " + in_header + "\r\n";
    body = R"({"details":{"retryAfterSeconds":)" + in_body + "}}";
    return ask(io, client, Request("GET", "/")).value().retry_after;
  };
  CHECK(asked("86399", "7") == std::chrono::seconds(86'399));
  CHECK(asked("", "86399") == std::chrono::seconds(86'399));
  CHECK(asked("0", "7") == std::chrono::seconds(7));
  for (const char* none : {"0", "86400", "-1", "9223372036854775807"}) {
    CHECK_FALSE(asked(none, none));
    CHECK_FALSE(asked("", none));
  }
}

TEST_CASE("kube client: a connection closed while idle is replaced, once, for what may be sent again") {
  net::io_context io;
  ScriptedEngine server(io, [](const std::string&, int connection) {
    if (connection == 1) return Reply{http_answer(200, "1"), true};
    return Reply{http_answer(200, "2")};
  });
  Client client(io, config_for(server.port()));
  CHECK(ask(io, client, Request("GET", "/"))->body == "1");
  CHECK(ask(io, client, Request("GET", "/"))->body == "2");
  CHECK(server.connections() == 2);
}

TEST_CASE("kube client: every failure has its kind") {
  net::io_context io;
  ScriptedEngine server(io, [](const std::string& path, int) {
    if (path == "/hang") return Reply{"", false, true};
    if (path == "/half") return Reply{"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", true};
    if (path == "/noise") return Reply{"hello\n\n", true};
    if (path == "/gzip") return Reply{http_answer(200, "x", "Content-Encoding: gzip\r\n")};
    return Reply{http_answer(200, std::string(5000, 'x'))};
  });
  const auto code = [&](const char* path, std::size_t limit = 1000) {
    Client client(io, config_for(server.port()));
    Request request("GET", path);
    request.timeout = milliseconds(200);
    request.body_limit_bytes = limit;
    const auto answer = ask(io, client, request);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().detail.find("secret") == std::string::npos);
    return answer.error().code;
  };
  CHECK(code("/hang") == Errc::timeout);
  CHECK(code("/half") == Errc::closed);
  CHECK(code("/noise") == Errc::bad_framing);
  CHECK(code("/gzip") == Errc::unknown_coding);
  CHECK(code("/big") == Errc::too_large);
  server.stop();
  CHECK(code("/refused") == Errc::refused);
}

TEST_CASE("kube client: a name with several addresses is tried until one answers") {
  net::io_context io;
  ScriptedEngine server(io, [](const std::string&, int) { return Reply{http_answer(200, "{}")}; });
  auto config = config_for(server.port());
  config.host = "localhost";  // ::1 first where there is one, and nobody listens there
  Client client(io, config);
  CHECK(ask(io, client, Request("GET", "/"))->ok());
  config.host = "nobody.invalid";
  Client other(io, config);
  const auto answer = ask(io, other, Request("GET", "/"));
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().detail.find("look-up of nobody.invalid") == 0);
}

TEST_CASE("kube client: a rotated token file is read again after a 401, and the request is sent again") {
  net::io_context io;
  const std::string path = "/tmp/wr-token-" + std::to_string(::getpid());
  std::ofstream(path) << "old\n";
  int calls = 0;
  ScriptedEngine server(io, [&](const std::string&, int) {
    if (++calls == 1) {
      std::ofstream(path) << "new\n";
      return Reply{http_answer(401, "")};
    }
    return Reply{http_answer(200, "")};
  });
  auto config = config_for(server.port());
  config.token_file = path;
  Client client(io, config);
  CHECK(ask(io, client, Request("GET", "/"))->status == 200);
  REQUIRE(server.requests().size() == 2);
  CHECK(server.requests()[0].find("Bearer old\r\n") != std::string::npos);
  CHECK(server.requests()[1].find("Bearer new\r\n") != std::string::npos);
  std::remove(path.c_str());  // from here on the last token serves
  CHECK(ask(io, client, Request("GET", "/"))->status == 200);
}

TEST_CASE("kube client: an exec plugin runs once until its credential expires or is refused") {
  net::io_context io;
  const std::string count = "/tmp/wr-plugin-" + std::to_string(::getpid());
  std::ofstream(count).flush();
  bool refuse = false;
  ScriptedEngine server(
      io, [&](const std::string&, int) { return Reply{http_answer(std::exchange(refuse, false) ? 401 : 200, "")}; });
  auto config = config_for(server.port());
  config.token.clear();
  config.exec = ExecPlugin{};
  config.exec->api_version = "client.authentication.k8s.io/v1";
  config.exec->command = "sh";
  config.exec->args = {"-c", "echo x >> " + count + "; n=$(wc -l < " + count +
                                 "); printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":"
                                 "\"ExecCredential\",\"status\":{\"token\":\"t%s\"}}' $n"};
  Client client(io, config);
  CHECK(ask(io, client, Request("GET", "/"))->status == 200);
  CHECK(ask(io, client, Request("GET", "/"))->status == 200);
  CHECK(server.requests()[1].find("Bearer t1\r\n") != std::string::npos);
  refuse = true;
  CHECK(ask(io, client, Request("GET", "/"))->status == 200);
  CHECK(server.requests().back().find("Bearer t2\r\n") != std::string::npos);
  std::remove(count.c_str());
}

namespace {

/// Three requests at once, with a plugin that takes its time.
struct PluginWorld {
  explicit PluginWorld(const std::string& script, milliseconds limit = std::chrono::seconds(20)) {
    auto config = config_for(server.port());
    config.token.clear();
    config.exec = ExecPlugin{};
    config.exec->api_version = "client.authentication.k8s.io/v1";
    config.exec->command = "sh";
    config.exec->args = {"-c", script};
    ClientOptions options;
    options.auth.exec_timeout = limit;
    client = std::make_unique<Client>(io, config, options);
    for (auto& answer : answers) {
      tasks.spawn("request", [](Client& from, std::optional<Result<Response>>& into) -> net::Task<> {
        into = co_await from.request(Request("GET", "/x"));
      }(*client, answer));
    }
  }
  bool all_answered(int& turns) {
    return test::run_until(io, [&] {
      ++turns;
      return tasks.running() == 0;
    });
  }

  net::io_context io;
  ScriptedEngine server{io, [](const std::string&, int) { return Reply{http_answer(200, "")}; }};
  net::TaskGroup tasks{io};
  std::unique_ptr<Client> client;
  std::array<std::optional<Result<Response>>, 3> answers;
};

}  // namespace

TEST_CASE("kube client: all who need a running exec plugin wait for it asleep, and get what it gave") {
  int turns = 0;
  PluginWorld world(
      "sleep 0.3; printf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\","
      "\"status\":{\"token\":\"t%s\"}}' $$");
  REQUIRE(world.all_answered(turns));
  CHECK(turns < 200);  // of the loop; those who wake each other take many thousands
  REQUIRE(world.server.requests().size() == 3);
  const auto token = [&](std::size_t n) {
    const auto& head = world.server.requests()[n];
    return head.substr(head.find("Bearer "), 16);
  };
  CHECK(token(0).starts_with("Bearer t"));
  CHECK(token(1) == token(0));  // one run
  CHECK(token(2) == token(0));
}

TEST_CASE("kube client: the wait for an exec plugin ends with its time and with close()") {
  int turns = 0;
  PluginWorld hangs("sleep 600", milliseconds(100));
  REQUIRE(hangs.all_answered(turns));
  for (const auto& answer : hangs.answers) CHECK(answer.value().error().code == Errc::timeout);

  PluginWorld closed("sleep 600", milliseconds(1000));
  test::run_until(
      closed.io, [] { return false; }, milliseconds(100));
  closed.client->close();
  REQUIRE(test::run_until(
      closed.io, [&] { return closed.answers[1] && closed.answers[2]; }, milliseconds(600)));
  CHECK_FALSE(closed.answers[0]);  // it has the plugin
  CHECK(closed.answers[1]->error().code == Errc::cancelled);
  CHECK(closed.answers[2]->error().code == Errc::cancelled);
  REQUIRE(closed.all_answered(turns));
}

TEST_CASE("kube client: a watch gives whole lines wherever the stream is cut, and tells how it ended") {
  net::io_context io;
  Reply reply;
  ScriptedEngine server(io, [&](const std::string&, int) { return reply; });
  const auto followed = [&](Reply next, WatchRequest request = watch_of()) {
    reply = std::move(next);
    Client client(io, config_for(server.port()));
    return follow(io, client, std::move(request));
  };
  const auto orderly = followed(
      {stream_head + chunk("{\"a\":1}\n{\"b\"") + chunk(":2}\n\n{\"c\"") + chunk(":3}\n{\"half") + "0\r\n\r\n"});
  CHECK(orderly.lines == std::vector<std::string>{R"({"a":1})", R"({"b":2})", R"({"c":3})"});
  CHECK(orderly.end->code == Errc::closed);
  const auto cut = followed({stream_head + chunk("{\"a\":1}\n") + "5\r\n{\"b", true});
  CHECK(cut.lines == std::vector<std::string>{R"({"a":1})"});
  CHECK(cut.end->code == Errc::closed);
  const auto silent = followed({stream_head + chunk("{\"a\":1}\n"), false, true}, watch_of(milliseconds(100)));
  CHECK(silent.lines.size() == 1);
  CHECK(silent.end->code == Errc::timeout);
  auto small = watch_of();
  small.line_limit_bytes = 100;
  CHECK(followed({stream_head + chunk(std::string(5000, 'x')), false, true}, small).end->code == Errc::too_large);
  const auto gone = followed({http_answer(410, R"({"reason":"Expired","message":"too old"})")});
  CHECK(gone.response.text() == "410 Expired: too old");
}

TEST_CASE("kube client: close() ends a watch and a request under way") {
  net::io_context io;
  ScriptedEngine server(io, [](const std::string& path, int) {
    return path == "/w" ? Reply{stream_head, false, true} : Reply{"", false, true};
  });
  Client client(io, config_for(server.port()));
  std::optional<Errc> watched, requested;
  net::TaskGroup tasks(io);
  tasks.spawn("watch", [](Client& from, std::optional<Errc>& end) -> net::Task<> {
    auto watch = co_await from.watch(watch_of());
    auto line = co_await watch->stream->line();
    end = line.error().code;
  }(client, watched));
  tasks.spawn("request", [](Client& from, std::optional<Errc>& end) -> net::Task<> {
    auto answer = co_await from.request(Request("GET", "/x"));
    end = answer.error().code;
  }(client, requested));
  REQUIRE(test::run_until(io, [&] { return server.requests().size() == 2; }));
  test::run_until(
      io, [] { return false; }, milliseconds(50));
  client.close();
  REQUIRE(test::run_until(io, [&] { return watched && requested; }));
  CHECK(*watched == Errc::cancelled);
  CHECK(*requested == Errc::cancelled);
}

TEST_CASE("kube client: requests above the burst wait for their turn") {
  const auto start = net::Clock::now();
  RateLimit limit(0, 0, start);
  for (int i = 0; i < 10; ++i) CHECK(limit.take(start).count() == 0);
  CHECK(limit.take(start) == milliseconds(200));
  CHECK(limit.take(start) == milliseconds(400));
  CHECK(limit.take(start + std::chrono::seconds(10)).count() == 0);
  RateLimit own(100, 1, start);
  CHECK(own.take(start).count() == 0);
  CHECK(own.take(start) == milliseconds(10));
}

TEST_CASE("kube client: an urgent request passes those that wait for their turn") {
  net::io_context io;
  ScriptedEngine server(io, [](const std::string&, int) { return Reply{http_answer(200, "")}; });
  ClientOptions options;
  options.qps = 0.01;
  options.burst = 1;
  Client client(io, config_for(server.port()), options);
  REQUIRE(ask(io, client, Request("GET", "/first")).has_value());
  net::TaskGroup tasks(io);
  tasks.spawn("waits",
              [](Client& from) -> net::Task<> { (void)co_await from.request(Request("GET", "/waits")); }(client));
  Request lease("GET", "/lease");
  lease.urgent = true;
  REQUIRE(ask(io, client, lease).has_value());
  REQUIRE(ask(io, client, lease).has_value());
  CHECK(server.count("/lease") == 2);
  CHECK(server.count("/waits") == 0);
  client.close();
  REQUIRE(test::run_until(io, [&] { return tasks.running() == 0; }));
}

}  // namespace warmroute::kube
