#include "webhook/server.hpp"

#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <future>
#include <thread>

#include "net/certificate.hpp"

using namespace warmroute;

namespace {

/// The server on a control thread of its own.
class Running {
 public:
  Running() : tls_(net::ServerTls::create_empty()), work_(io_.get_executor()) {
    ::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to closed sockets; the router ignores it, too
    server_ = std::make_unique<webhook::Server>(
        io_, *tls_, [this](webhook::Server::Outcome outcome) { outcomes += std::string(name(outcome)) + " "; });
    const auto port = server_->listen("127.0.0.1", 0);
    REQUIRE(port.has_value());
    port_ = *port;
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Running() {
    std::promise<void> done;
    boost::asio::post(io_, [&] {
      server_.reset();
      done.set_value();
    });
    done.get_future().wait();
    work_.reset();
    thread_.join();
  }
  void give_certificate() {
    net::CertificateOrder order;
    order.authority = "ca";
    order.dns_names = {"x"};
    order.until = 4'000'000'000;
    const auto made = net::make_certificate(order);
    REQUIRE(made.has_value());
    REQUIRE(tls_->use(made->certificate, made->key, "test").has_value());
  }
  /// One connection, blocking; what came back until the peer closed. Empty when the handshake failed.
  std::string exchange(const std::string& request) const {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    timeval limit{10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
    SSL* const ssl = SSL_new(context);
    SSL_set_fd(ssl, fd);
    std::string answer;
    if (SSL_connect(ssl) == 1) {
      std::size_t sent = 0;
      SSL_write_ex(ssl, request.data(), request.size(), &sent);
      char buffer[4096];
      std::size_t got = 0;
      while (SSL_read_ex(ssl, buffer, sizeof buffer, &got) == 1) answer.append(buffer, got);
    }
    SSL_free(ssl);
    SSL_CTX_free(context);
    ::close(fd);
    return answer;
  }

  std::string outcomes;  ///< read when nothing is under way

 private:
  std::unique_ptr<net::ServerTls> tls_;
  net::io_context io_;
  boost::asio::executor_work_guard<net::Executor> work_;
  std::unique_ptr<webhook::Server> server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

std::string post(const std::string& target, const std::string& body, const std::string& type = "application/json") {
  return "POST " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("The webhook speaks TLS, once it has a certificate", "[webhook]") {
  Running server;
  const std::string health = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  CHECK(server.exchange(health) == "");
  server.give_certificate();
  CHECK(has(server.exchange(health), "HTTP/1.1 200 OK\r\n"));
  CHECK(has(server.exchange(health), "\r\n\r\nok"));
}

TEST_CASE("The webhook answers reviews under their paths", "[webhook]") {
  Running server;
  server.give_certificate();
  const std::string good =
      R"({"request":{"uid":"u","object":{"spec":{"modelName":"m","rules":[{"targetModels":[{"modelServerName":"a"}]}]}}}})";
  const std::string bad = R"({"request":{"uid":"u","object":{"spec":{}}}})";
  CHECK(has(server.exchange(post("/validate/modelroute?timeout=30s", good)), R"("allowed":true)"));
  CHECK(has(server.exchange(post("/validate/modelserver", bad)), "workloadSelector must be specified"));
  CHECK(has(server.exchange(post("/validate/modelroute", good, "text/json")), "HTTP/1.1 400 "));
  CHECK(has(server.exchange(post("/validate/other", good)), "HTTP/1.1 404 "));
  CHECK(has(server.exchange("GET /validate/modelroute HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
            "invalid Content-Type, expected application/json, got"));
  CHECK(server.outcomes == "allowed denied unreadable ");
  // A review of megabytes, in many reads.
  std::string large = bad;
  large.insert(large.size() - 1, ",\"more\":\"" + std::string(3'000'000, 'x') + "\"");
  CHECK(server.exchange(post("/validate/modelserver", large)).size() > 3'000'000);
  CHECK(has(server.exchange("POST /validate/modelroute HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n"),
            "HTTP/1.1 413 "));
}
