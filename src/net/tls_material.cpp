// ClientTls from PEM texts: the API server's CA and a client certificate, which kubeconfig files carry inline.

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "net/tls.hpp"

namespace warmroute::net {
namespace {

struct Freer {
  void operator()(BIO* bio) const noexcept { BIO_free(bio); }
  void operator()(X509* certificate) const noexcept { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const noexcept { EVP_PKEY_free(key); }
};
using BioPtr = std::unique_ptr<BIO, Freer>;
using CertificatePtr = std::unique_ptr<X509, Freer>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Freer>;

BioPtr reader(const std::string& text) { return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size()))); }

/// A key with a pass phrase must not make OpenSSL ask for it on the terminal.
int no_password(char*, int, int, void*) { return 0; }

Error refused(const char* what) {
  const unsigned long code = ERR_peek_last_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return Error{Errc::tls, Source::internal, Retry::never,
               std::string(what) + (reason == nullptr ? "" : std::string(": ") + reason)};
}

/// True when the text held at least one certificate and nothing was wrong with any.
bool add_authorities(SSL_CTX* context, const std::string& pem) {
  const BioPtr bio = reader(pem);
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  bool any = false;
  while (const CertificatePtr certificate{PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)}) {
    if (X509_STORE_add_cert(store, certificate.get()) != 1) return false;
    any = true;
  }
  const unsigned long code = ERR_peek_last_error();
  if (code != 0 && ERR_GET_REASON(code) != PEM_R_NO_START_LINE) return false;
  ERR_clear_error();
  return any;
}

bool use_chain(SSL_CTX* context, const std::string& pem) {
  const BioPtr bio = reader(pem);
  const CertificatePtr own{PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)};
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (const CertificatePtr next{PEM_read_bio_X509(bio.get(), nullptr, no_password, nullptr)}) {
    if (SSL_CTX_add1_chain_cert(context, next.get()) != 1) return false;
  }
  ERR_clear_error();  // the end of the text is an error to PEM_read_bio
  return true;
}

bool use_key(SSL_CTX* context, const std::string& pem) {
  const BioPtr bio = reader(pem);
  const KeyPtr key{PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr)};
  return key && SSL_CTX_use_PrivateKey(context, key.get()) == 1 && SSL_CTX_check_private_key(context) == 1;
}

}  // namespace

Result<std::unique_ptr<ClientTls>> ClientTls::create(const ClientTlsMaterial& material) {
  const bool own_ca = !material.ca_pem.empty();
  auto tls = create(std::string(), material.insecure || own_ca);  // then without the system's CAs
  if (!tls) return tls;
  SSL_CTX* const context = (*tls)->context_;
  ERR_clear_error();
  if (own_ca && !material.insecure) {
    if (!add_authorities(context, material.ca_pem)) return refused("the CA certificate cannot be read");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  }
  if (material.certificate_pem.empty() != material.key_pem.empty())
    return Error{Errc::tls, Source::internal, Retry::never, "a client certificate and its key are given together"};
  if (!material.certificate_pem.empty()) {
    if (!use_chain(context, material.certificate_pem)) return refused("the client certificate cannot be read");
    if (!use_key(context, material.key_pem)) return refused("the client's key cannot be used");
  }
  return tls;
}

}  // namespace warmroute::net
