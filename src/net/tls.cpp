#include "net/tls.hpp"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <array>

namespace warmroute::net {
namespace {

/// The oldest reason in OpenSSL's queue, which names the cause; the queue is emptied.
std::string openssl_reason() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? "unknown reason" : reason;
}

bool is_address(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address{};
  return inet_pton(AF_INET, host.c_str(), address.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), address.data()) == 1;
}

/// `fe80::1%eth0` is verified as `fe80::1`: certificates carry no zones.
std::string without_zone(const std::string& host) { return host.substr(0, host.find('%')); }

/// An address goes without SNI (RFC 6066 3) and is checked against the certificate's IP entries.
bool set_peer(SSL* ssl, const std::string& host, bool verify) {
  const std::string name = without_zone(host);
  if (is_address(name)) return !verify || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str()) == 1;
  if (name.empty()) return !verify;
  if (SSL_set_tlsext_host_name(ssl, name.c_str()) != 1) return false;
  return !verify || SSL_set1_host(ssl, name.c_str()) == 1;
}

}  // namespace

void SslDeleter::operator()(ssl_st* ssl) const noexcept { SSL_free(ssl); }

Result<std::unique_ptr<ClientTls>> ClientTls::create(const std::string& ca_file, bool insecure) {
  ERR_clear_error();
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  if (context == nullptr) return value_error("cannot create a TLS context: " + openssl_reason());
  std::unique_ptr<ClientTls> tls(new ClientTls(context));  // the constructor is private
  if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1)
    return value_error("cannot set the lowest TLS version: " + openssl_reason());
  SSL_CTX_set_mode(context,
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  static constexpr std::array<unsigned char, 9> http1{8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  if (SSL_CTX_set_alpn_protos(context, http1.data(), http1.size()) != 0)
    return value_error("cannot set ALPN: " + openssl_reason());
  if (!ca_file.empty()) {
    if (SSL_CTX_load_verify_file(context, ca_file.c_str()) != 1)
      return value_error("cannot read CA certificates from " + ca_file + ": " + openssl_reason());
  } else if (!insecure && SSL_CTX_set_default_verify_paths(context) != 1) {
    return value_error("cannot load the system's CA certificates: " + openssl_reason());
  }
  SSL_CTX_set_verify(context, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, nullptr);
  return tls;
}

ClientTls::~ClientTls() { SSL_CTX_free(context_); }

SslPtr ClientTls::session(int descriptor, const std::string& host) const {
  ERR_clear_error();
  SslPtr ssl(SSL_new(context_));
  if (!ssl) return nullptr;
  const bool verify = SSL_CTX_get_verify_mode(context_) != SSL_VERIFY_NONE;
  if (SSL_set_fd(ssl.get(), descriptor) != 1 || !set_peer(ssl.get(), host, verify)) return nullptr;
  SSL_set_connect_state(ssl.get());
  return ssl;
}

}  // namespace warmroute::net
