#include "admin/http_server.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <future>
#include <limits>
#include <thread>

#include "net/certificate.hpp"
#include "net/server_tls.hpp"

using namespace warmroute;
using namespace warmroute::admin;
using namespace std::chrono_literals;

namespace {

/// A server on a control thread of its own.
class Running {
 public:
  explicit Running(HttpServerLimits limits = {}, HttpServer::Handler handler = echo,
                   HttpServer::PostHandler post = nullptr, HttpServer::TlsSession tls = nullptr,
                   std::size_t body_limit_bytes = 1000)
      : work_(io_.get_executor()),
        server_(std::make_unique<HttpServer>(io_, "Test server", std::move(handler), limits)) {
    if (post) server_->accept_posts(std::move(post), body_limit_bytes);
    if (tls) server_->use_tls(std::move(tls));
    const auto port = server_->listen("127.0.0.1", 0);
    REQUIRE(port.has_value());
    port_ = *port;
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Running() {
    on_control([this] { server_.reset(); });
    work_.reset();
    thread_.join();  // ends only when no coroutine is left
  }
  template <class F>
  void on_control(F f) {
    std::promise<void> done;
    boost::asio::post(io_, [&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }
  HttpServer& server() { return *server_; }

 private:
  static Page echo(std::string_view target) {
    Page page;
    page.body = "you asked for " + std::string(target);
    return page;
  }
  net::io_context io_;
  boost::asio::executor_work_guard<net::Executor> work_;
  std::unique_ptr<HttpServer> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

class Client {
 public:
  explicit Client(std::uint16_t port) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { ::close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  [[nodiscard]] bool connected() const { return connected_; }
  void send(std::string_view bytes) { (void)::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Reads until `end` was seen or the peer closed; five seconds at most.
  std::string read_until(std::string_view end) {
    while (in_.find(end) == std::string::npos && read_some()) {
    }
    const auto at = in_.find(end);
    const auto length = at == std::string::npos ? in_.size() : at + end.size();
    std::string result = in_.substr(0, length);
    in_.erase(0, length);
    return result;
  }
  /// Everything up to the peer's close. `closed` is false when it did not close within five seconds.
  std::string read_all(bool& closed) {
    while (read_some()) {
    }
    closed = closed_;
    return std::exchange(in_, {});
  }
  /// Nothing comes before that, or what comes is the end.
  bool is_closed(std::chrono::milliseconds wait) { return !read_some(wait) && closed_; }

 private:
  bool read_some(std::chrono::milliseconds wait = 5s) {
    pollfd ready{fd_, POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(wait.count())) <= 0) return false;
    char buffer[4096];
    const auto count = ::recv(fd_, buffer, sizeof buffer, 0);
    closed_ = count <= 0;
    if (count > 0) in_.append(buffer, static_cast<std::size_t>(count));
    return count > 0;
  }
  int fd_;
  bool connected_ = false;
  bool closed_ = false;
  std::string in_;
};

std::string get(std::uint16_t port, const std::string& request) {
  Client client(port);
  client.send(request);
  bool closed = false;
  auto answer = client.read_all(closed);
  CHECK(closed);
  return answer;
}

}  // namespace

TEST_CASE("admin: POST where it is wanted, with a body that comes in pieces, under its limit") {
  Running running(
      {}, [](std::string_view) { return Page(); },
      [](const Post& post) {
        Page page;
        page.body = std::string(post.target) + " has " + std::string(post.content_type) + std::string(post.body) + ".";
        return page;
      });
  Client client(running.port());
  client.send("POST /p?q HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nab");
  std::this_thread::sleep_for(20ms);
  client.send("cdefPOST /e HTTP/1.1\r\nHost: x\r\nContent-Type: a/b\r\nContent-Length: 0\r\n\r\n");
  CHECK(client.read_until("/p?q has abcdef.").find("200 OK") != std::string::npos);
  CHECK(client.read_until("/e has a/b.").find("200 OK") != std::string::npos);
  const std::string large = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n";
  CHECK(get(running.port(), large).rfind("HTTP/1.1 413 ", 0) == 0);
  const std::string whole = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n";
  CHECK(get(running.port(), whole + std::string(1000, 'y')).find(" has yyyy") != std::string::npos);
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  CHECK(get(running.port(), chunked).rfind("HTTP/1.1 411 ", 0) == 0);
  CHECK(get(running.port(), "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").rfind("HTTP/1.1 405 ", 0) == 0);
}

TEST_CASE("admin: GET, HEAD and keep-alive") {
  Running running;
  Client client(running.port());
  client.send("GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto first = client.read_until("you asked for /a?b=c");
  CHECK(first.rfind("HTTP/1.1 200 OK\r\n", 0) == 0);
  CHECK(first.find("Content-Type: text/plain; charset=utf-8\r\n") != std::string::npos);
  CHECK(first.find("Content-Length: 20\r\n") != std::string::npos);
  CHECK(first.find("\r\nDate: ") != std::string::npos);
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  bool closed = false;
  const auto rest = client.read_all(closed);
  CHECK(closed);
  CHECK(rest.find("Content-Length: 16\r\n") != std::string::npos);
  CHECK(rest.find("you asked for /a") == std::string::npos);
  CHECK(rest.find("you asked for /b") != std::string::npos);
  CHECK(rest.find("Connection: close\r\n") != std::string::npos);
}

TEST_CASE("admin: a request in single bytes") {
  Running running;
  Client client(running.port());
  for (const char c : std::string("GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) client.send({&c, 1});
  bool closed = false;
  CHECK(client.read_all(closed).find("you asked for /x") != std::string::npos);
  CHECK(closed);
}

TEST_CASE("admin: refusals close the connection") {
  Running running;
  const auto port = running.port();
  CHECK(get(port, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").rfind("HTTP/1.1 405 ", 0) == 0);
  CHECK(get(port, "DELETE / HTTP/1.1\r\nHost: x\r\n\r\n").find("\r\nAllow: GET, HEAD\r\n") != std::string::npos);
  CHECK(get(port, "GARBAGE\r\n\r\n").rfind("HTTP/1.1 400 ", 0) == 0);
  CHECK(get(port, "GET / HTTP/1.1\r\nX: " + std::string(9000, 'a') + "\r\n\r\n").rfind("HTTP/1.1 431 ", 0) == 0);
  CHECK(get(port, "GET / HTTP/1.1\r\nX: " + std::string(9000, 'a')).rfind("HTTP/1.1 431 ", 0) == 0);
  // A body with GET is not read: answered, then closed.
  CHECK(get(port, "GET /q HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc").find("you asked for /q") !=
        std::string::npos);
  CHECK(get(port, "GET /old HTTP/1.0\r\n\r\n").find("you asked for /old") != std::string::npos);
}

TEST_CASE("admin: large pages arrive whole") {
  Running running({}, [](std::string_view) {
    Page page;
    page.body = std::string(5'000'000, 'x') + "end";
    return page;
  });
  const auto answer = get(running.port(), "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  CHECK(answer.size() > 5'000'003);
  CHECK(answer.substr(answer.size() - 4) == "xend");
}

TEST_CASE("admin: slow heads and idle connections are closed") {
  HttpServerLimits limits;
  limits.head = 200ms;
  limits.idle = 400ms;
  Running running(limits);
  CHECK(get(running.port(), "GET / HTTP/1.1\r\n").empty());
  CHECK(get(running.port(), "").empty());
  Client client(running.port());
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  bool closed = false;
  CHECK(client.read_all(closed).find("you asked for /") != std::string::npos);
  CHECK(closed);
}

TEST_CASE("admin: at the limit the longest idle connection makes room") {
  HttpServerLimits limits;
  limits.connections = 2;
  Running running(limits);
  const std::string request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  Client first(running.port());
  first.send(request);
  first.read_until("you asked for /");
  Client second(running.port());
  second.send(request);
  second.read_until("you asked for /");
  Client third(running.port());
  third.send(request);
  CHECK(third.read_until("you asked for /").find("200 OK") != std::string::npos);
  bool closed = false;
  first.read_all(closed);
  CHECK(closed);
  second.send(request);
  CHECK(second.read_until("you asked for /").find("200 OK") != std::string::npos);
}

TEST_CASE("admin: without an idle connection the oldest handshake makes room, not the one that just began") {
  HttpServerLimits limits;
  limits.connections = 2;
  const auto tls = net::ServerTls::create_empty();
  net::CertificateOrder order;
  order.authority = "test";
  order.dns_names = {"localhost"};
  order.until = std::numeric_limits<std::int32_t>::max();
  const auto made = net::make_certificate(order);
  REQUIRE(made.has_value());
  REQUIRE(tls->use(made->certificate, made->key, "test").has_value());
  Running running(
      limits, [](std::string_view) { return Page(); }, nullptr,
      [&](int descriptor) { return tls->session(descriptor); });
  Client first(running.port());
  std::this_thread::sleep_for(20ms);
  Client second(running.port());
  std::this_thread::sleep_for(20ms);
  Client third(running.port());
  bool closed = false;
  first.read_all(closed);
  CHECK(closed);
  CHECK_FALSE(second.is_closed(100ms));
  CHECK_FALSE(third.is_closed(100ms));
}

TEST_CASE("admin: what is held of requests that are not complete is bounded; small ones get through") {
  HttpServerLimits limits;
  limits.connections = 4;
  limits.input_bytes = 160U << 10U;
  Running running(
      limits, [](std::string_view) { return Page(); },
      [](const Post& post) {
        Page page;
        page.body = std::to_string(post.body.size()) + " bytes.";
        return page;
      },
      nullptr, 200U << 10U);
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
  Client first(running.port());
  first.send(head + std::string(40'000, 'a'));
  std::this_thread::sleep_for(50ms);
  Client second(running.port());
  second.send(head + std::string(62'000, 'b'));
  std::this_thread::sleep_for(50ms);
  second.send("b");  // what is held grows by doubling: 64 KiB and 128 KiB now
  CHECK(second.read_until("503 Service Unavailable").find("HTTP/1.1 503 ") == 0);
  Client third(running.port());
  third.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  CHECK(third.read_until("3 bytes.").find("200 OK") != std::string::npos);
  first.send(std::string(60'000, 'a'));
  CHECK(first.read_until("100000 bytes.").find("200 OK") != std::string::npos);
  first.send(head + std::string(100'000, 'a'));  // what was held is given back
  CHECK(first.read_until("100000 bytes.").find("200 OK") != std::string::npos);
}

TEST_CASE("admin: stop closes listener and connections") {
  Running running;
  Client idle(running.port());
  idle.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  idle.read_until("you asked for /");
  Client half(running.port());
  half.send("GET / HT");
  running.on_control([&] { running.server().stop(); });
  bool closed = false;
  idle.read_all(closed);
  CHECK(closed);
  half.read_all(closed);
  CHECK(closed);
  CHECK_FALSE(Client(running.port()).connected());
}

TEST_CASE("admin: the server may go before a loop that never runs again") {
  net::io_context io;
  auto server = std::make_unique<HttpServer>(io, "Test server", [](std::string_view) { return Page{}; });
  const auto port = server->listen("", 0);
  REQUIRE(port.has_value());
  Client client(*port);
  client.send("GET / HT");
  REQUIRE(client.connected());
  while (io.poll_one() != 0) {
  }
  server.reset();
}

TEST_CASE("admin: wildcard, localhost and errors of listen") {
  net::io_context io;
  HttpServer any(io, "Metrics server", [](std::string_view) { return Page{}; });
  const auto port = any.listen("", 0);
  REQUIRE(port.has_value());
  CHECK(Client(*port).connected());  // IPv4 reaches the dual-stack socket
  HttpServer local(io, "Debug server", [](std::string_view) { return Page{}; });
  CHECK(local.listen("localhost", 0).has_value());
  HttpServer taken(io, "Metrics server", [](std::string_view) { return Page{}; });
  const auto error = taken.listen("", *port);
  REQUIRE(error.has_error());
  CHECK(error.error().detail.rfind("Metrics server listen failed: ", 0) == 0);
  HttpServer odd(io, "Metrics server", [](std::string_view) { return Page{}; });
  CHECK(odd.listen("not-an-address", 0).has_error());
}
