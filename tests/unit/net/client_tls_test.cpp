// The client's TLS against a server of OpenSSL's own, with certificates made on the spot.
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include "net/connection.hpp"
#include "net/fetch.hpp"
#include "net/tls.hpp"
#include "support/run_coro.hpp"

namespace warmroute::net {
namespace {

/// A self-signed certificate for one subject alternative name, and the file that holds it.
class Certificate {
 public:
  explicit Certificate(const std::string& alternative_name)
      : key_(EVP_EC_gen("P-256")), certificate_(X509_new()), path_("/tmp/wr-tls-test-XXXXXX") {
    ASN1_INTEGER_set(X509_get_serialNumber(certificate_), 1);
    X509_gmtime_adj(X509_getm_notBefore(certificate_), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate_), 3600);
    X509_set_version(certificate_, X509_VERSION_3);
    X509_set_pubkey(certificate_, key_);
    auto* const name = X509_get_subject_name(certificate_);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("test"), -1, -1, 0);
    X509_set_issuer_name(certificate_, name);
    add_extension(NID_subject_alt_name, alternative_name);
    add_extension(NID_basic_constraints, "CA:TRUE");
    X509_sign(certificate_, key_, EVP_sha256());
    const int descriptor = mkstemp(path_.data());
    std::FILE* const file = fdopen(descriptor, "w");
    PEM_write_X509(file, certificate_);
    std::fclose(file);
  }
  Certificate(const Certificate&) = delete;
  Certificate& operator=(const Certificate&) = delete;
  ~Certificate() {
    std::remove(path_.c_str());
    X509_free(certificate_);
    EVP_PKEY_free(key_);
  }
  [[nodiscard]] EVP_PKEY* key() const { return key_; }
  [[nodiscard]] X509* certificate() const { return certificate_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  void add_extension(int nid, const std::string& value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, nid, value.c_str());
    X509_add_ext(certificate_, extension, -1);
    X509_EXTENSION_free(extension);
  }
  EVP_PKEY* key_;
  X509* certificate_;
  std::string path_;
};

/// Accepts connections one after the other and answers every request with the connection's number.
class TlsServer {
 public:
  TlsServer(const Certificate& certificate, int highest_version = 0)
      : context_(SSL_CTX_new(TLS_server_method())),
        acceptor_(io_, {boost::asio::ip::make_address("127.0.0.1"), 0}),
        port_(acceptor_.local_endpoint().port()) {
    SSL_CTX_use_PrivateKey(context_, certificate.key());
    SSL_CTX_use_certificate(context_, certificate.certificate());
    if (highest_version != 0) {
      SSL_CTX_set_min_proto_version(context_, highest_version);
      SSL_CTX_set_max_proto_version(context_, highest_version);
    }
    std::signal(SIGPIPE, SIG_IGN);  // as main does
    thread_ = std::thread([this] { serve(); });
  }
  TlsServer(const TlsServer&) = delete;
  TlsServer& operator=(const TlsServer&) = delete;
  ~TlsServer() {
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);  // wakes a blocking accept
    thread_.join();
    SSL_CTX_free(context_);
  }
  [[nodiscard]] std::uint16_t port() const { return port_; }

 private:
  void serve() {
    for (int number = 1;; ++number) {
      boost::system::error_code code;
      boost::asio::ip::tcp::socket socket(io_);
      acceptor_.accept(socket, code);
      if (code) return;
      SslPtr ssl(SSL_new(context_));
      SSL_set_fd(ssl.get(), socket.native_handle());
      if (SSL_accept(ssl.get()) != 1) continue;
      std::string head;
      char byte = 0;
      const std::string body(100000, static_cast<char>('0' + number));  // several TLS records
      const std::string answer =
          "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
      while (SSL_read(ssl.get(), &byte, 1) == 1) {
        head += byte;
        if (!head.ends_with("\r\n\r\n")) continue;
        if (head.starts_with("CUT ")) break;  // without close_notify
        head.clear();
        SSL_write(ssl.get(), answer.data(), static_cast<int>(answer.size()));
      }
    }
  }
  SSL_CTX* context_;
  boost::asio::io_context io_;
  boost::asio::ip::tcp::acceptor acceptor_;
  std::uint16_t port_;
  std::thread thread_;
};

Task<> store(FetchConnection& connection, FetchRequest request, std::optional<Result<FetchResponse>>& out) {
  out = co_await connection.get(std::move(request));
}

Result<FetchResponse> get(io_context& io, FetchConnection& connection, std::uint16_t port, const ClientTls& tls) {
  FetchRequest request;
  request.ip = "127.0.0.1";
  request.port = port;
  request.tls = &tls;
  std::optional<Result<FetchResponse>> out;
  test::run_coro(io, store(connection, request, out));
  return *out;
}

/// The error of one exchange, or nothing.
std::optional<Error> failure_of(const TlsServer& server, const ClientTls& tls) {
  io_context io;
  FetchConnection connection(io);
  auto response = get(io, connection, server.port(), tls);
  if (response) return std::nullopt;
  return response.error();
}

}  // namespace

TEST_CASE("fetch over TLS verifies the address and reuses the session's connection") {
  const Certificate certificate("IP:127.0.0.1");
  TlsServer server(certificate);
  const auto tls = ClientTls::create(certificate.path(), false);
  REQUIRE(tls.has_value());
  io_context io;
  FetchConnection connection(io);
  for (int i = 0; i < 2; ++i) {
    const auto response = get(io, connection, server.port(), **tls);
    INFO((response ? "" : response.error().detail));
    REQUIRE(response.has_value());
    CHECK(response->body == std::string(100000, '1'));
  }
}

TEST_CASE("a TLS peer that goes without close_notify has reset the connection, not broken the protocol") {
  const Certificate certificate("IP:127.0.0.1");
  TlsServer server(certificate);
  const auto tls = *ClientTls::create(certificate.path(), false);
  io_context io;
  IoResult last;
  test::run_coro(io, [](io_context& on, const TlsServer& to, const ClientTls& with, IoResult& end) -> Task<> {
    Socket socket(on.get_executor());
    socket.connect({boost::asio::ip::make_address("127.0.0.1"), to.port()});
    Connection connection(std::move(socket));
    connection.start_tls(with.session(connection.socket().native_handle(), "127.0.0.1"));
    while (connection.try_handshake().status != Io::ok) (void)co_await connection.wait_readable();
    std::string text = "CUT / HTTP/1.1\r\n\r\n";
    const iovec piece{text.data(), text.size()};
    CHECK(connection.try_write({&piece, 1}).status == Io::ok);
    std::string into(100, ' ');
    for (end = connection.try_read(into); end.status == Io::would_block; end = connection.try_read(into))
      (void)co_await connection.wait_readable();
  }(io, server, *tls, last));
  CHECK(last.status == Io::error);
  CHECK(last.ec == boost::asio::error::connection_reset);
}

TEST_CASE("an unknown issuer, a wrong address and an old version are refused, unless insecure") {
  const Certificate right("IP:127.0.0.1"), wrong_address("IP:127.0.0.2"), named("DNS:localhost");
  const auto trusting = [](const Certificate& certificate) { return *ClientTls::create(certificate.path(), false); };
  {
    TlsServer server(wrong_address);
    const auto failure = failure_of(server, *trusting(wrong_address));
    REQUIRE(failure);
    CHECK(failure->code == Errc::tls);
    CHECK(failure->detail.find("IP address mismatch") != std::string::npos);
    CHECK_FALSE(failure_of(server, **ClientTls::create("", true)));
  }
  {
    TlsServer server(named);
    CHECK(failure_of(server, *trusting(named)));
  }
  {
    TlsServer server(right);
    const auto failure = failure_of(server, **ClientTls::create("", false));  // the system's CAs
    REQUIRE(failure);
    CHECK(failure->code == Errc::tls);
  }
  {
    TlsServer server(right, TLS1_1_VERSION);
    CHECK(failure_of(server, **ClientTls::create("", true)));
  }
}

TEST_CASE("a session for a name sends SNI and verifies the name, one for an address does not send SNI") {
  const auto tls = *ClientTls::create("", false);
  const auto sni = [&](const std::string& host) {
    const auto ssl = tls->session(0, host);
    REQUIRE(ssl);
    const char* const name = SSL_get_servername(ssl.get(), TLSEXT_NAMETYPE_host_name);
    return std::string(name == nullptr ? "" : name);
  };
  CHECK(sni("engine.local") == "engine.local");
  CHECK(sni("10.0.0.1").empty());
  CHECK(sni("fe80::1%eth0").empty());
  CHECK_FALSE(tls->session(0, ""));
}

TEST_CASE("a CA file that cannot be read is an error with its name") {
  const auto tls = ClientTls::create("/nonexistent/ca.pem", false);
  REQUIRE(tls.has_error());
  CHECK(tls.error().detail.find("/nonexistent/ca.pem") != std::string::npos);
}

}  // namespace warmroute::net
