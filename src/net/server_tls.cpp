#include "net/server_tls.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>

namespace warmroute::net {
namespace {

Error tls_error(std::string what) {
  const auto number = ERR_get_error();
  if (number != 0) {
    std::array<char, 256> text{};
    ERR_error_string_n(number, text.data(), text.size());
    what.append(": ").append(text.data());
  }
  ERR_clear_error();
  return Error{Errc::tls, Source::internal, Retry::never, std::move(what)};
}

Result<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file) return Error{Errc::io, Source::internal, Retry::never, "cannot read " + path};
  return std::move(text).str();
}

int select_http11(SSL*, const unsigned char** out, unsigned char* out_length, const unsigned char* in,
                  unsigned int in_length, void*) {
  static constexpr std::array<unsigned char, 9> offered = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  if (SSL_select_next_proto(&chosen, out_length, offered.data(), offered.size(), in, in_length) !=
      OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

struct BioFree {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
};
struct X509Free {
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
};
struct KeyFree {
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};

/// \param certificate_name, key_name where the texts come from.
Result<std::shared_ptr<ssl_ctx_st>> load(const std::string& certificate, const std::string& certificate_name,
                                         const std::string& key, const std::string& key_name) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_set_alpn_select_cb(context.get(), select_http11, nullptr);

  const std::unique_ptr<BIO, BioFree> certificates(
      BIO_new_mem_buf(certificate.data(), static_cast<int>(certificate.size())));
  const std::unique_ptr<X509, X509Free> leaf(PEM_read_bio_X509_AUX(certificates.get(), nullptr, nullptr, nullptr));
  if (!leaf || SSL_CTX_use_certificate(context.get(), leaf.get()) != 1)
    return tls_error("cannot use the certificate in " + certificate_name);
  while (X509* extra = PEM_read_bio_X509(certificates.get(), nullptr, nullptr, nullptr))
    SSL_CTX_add0_chain_cert(context.get(), extra);
  ERR_clear_error();  // the end of the file is reported as an error
  const std::unique_ptr<BIO, BioFree> keys(BIO_new_mem_buf(key.data(), static_cast<int>(key.size())));
  const std::unique_ptr<EVP_PKEY, KeyFree> private_key(PEM_read_bio_PrivateKey(keys.get(), nullptr, nullptr, nullptr));
  if (!private_key || SSL_CTX_use_PrivateKey(context.get(), private_key.get()) != 1)
    return tls_error("cannot use the key in " + key_name);
  if (SSL_CTX_check_private_key(context.get()) != 1)
    return tls_error("certificate " + certificate_name + " and key " + key_name + " do not belong together");
  return context;
}

}  // namespace

ServerTls::~ServerTls() = default;

std::unique_ptr<ServerTls> ServerTls::create_empty() { return std::unique_ptr<ServerTls>(new ServerTls({}, {})); }

Result<std::unique_ptr<ServerTls>> ServerTls::create(std::string certificate_file, std::string key_file) {
  std::unique_ptr<ServerTls> tls(new ServerTls(std::move(certificate_file), std::move(key_file)));
  auto loaded = tls->reload_if_changed();
  if (!loaded) return loaded.error();
  return tls;
}

Result<bool> ServerTls::reload_if_changed() {
  auto certificate = read_file(certificate_file_);
  if (!certificate) return certificate.error();
  auto key = read_file(key_file_);
  if (!key) return key.error();
  return take(*certificate, certificate_file_, *key, key_file_);
}

Result<bool> ServerTls::use(const std::string& certificate, const std::string& key, const std::string& origin) {
  return take(certificate, origin, key, origin);
}

Result<bool> ServerTls::take(const std::string& certificate, const std::string& certificate_name,
                             const std::string& key, const std::string& key_name) {
  std::string content = certificate + '\0' + key;
  if (content == seen_) return false;
  seen_ = std::move(content);
  auto context = load(certificate, certificate_name, key, key_name);
  if (!context) return context.error();
  const std::lock_guard lock(mutex_);
  context_ = std::move(*context);
  return true;
}

SslPtr ServerTls::session(int descriptor) const {
  std::shared_ptr<SSL_CTX> context;
  {
    const std::lock_guard lock(mutex_);
    context = context_;
  }
  if (!context) return nullptr;
  SslPtr ssl(SSL_new(context.get()));  // takes a reference of its own
  if (ssl) {
    SSL_set_fd(ssl.get(), descriptor);
    SSL_set_accept_state(ssl.get());
  }
  return ssl;
}

}  // namespace warmroute::net
