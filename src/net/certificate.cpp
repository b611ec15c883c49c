#include "net/certificate.hpp"

#include <openssl/asn1.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <array>
#include <ctime>
#include <memory>

namespace warmroute::net {
namespace {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* object) const noexcept {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freer<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;

Error failure(const char* what) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* const reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return Error{Errc::tls, Source::internal, Retry::never,
               std::string(what) + (reason == nullptr ? "" : std::string(": ") + reason)};
}

bool add_entry(X509_NAME* name, const char* field, const std::string& value) {
  return value.empty() ||
         X509_NAME_add_entry_by_txt(name, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

bool add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> bytes{};
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) return false;
  bytes[0] &= 0x7FU;  // positive
  bytes[0] |= 0x40U;  // never zero
  const std::unique_ptr<BIGNUM, Freer<BN_free>> number(BN_bin2bn(bytes.data(), bytes.size(), nullptr));
  return number && BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

/// Everything that both kinds of certificate have.
Certificate begin(const CertificateOrder& order, EVP_PKEY* key) {
  Certificate certificate(X509_new());
  if (!certificate || X509_set_version(certificate.get(), X509_VERSION_3) != 1 || !set_serial(certificate.get()) ||
      ASN1_TIME_set(X509_getm_notBefore(certificate.get()), static_cast<std::time_t>(order.from)) == nullptr ||
      ASN1_TIME_set(X509_getm_notAfter(certificate.get()), static_cast<std::time_t>(order.until)) == nullptr ||
      X509_set_pubkey(certificate.get(), key) != 1)
    return nullptr;
  return certificate;
}

Certificate make_ca(const CertificateOrder& order, EVP_PKEY* key) {
  Certificate ca = begin(order, key);
  if (!ca) return nullptr;
  X509_NAME* const name = X509_get_subject_name(ca.get());
  if (!add_entry(name, "O", order.organisation) || !add_entry(name, "CN", order.authority) ||
      X509_set_issuer_name(ca.get(), name) != 1 ||
      !add_extension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !add_extension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !add_extension(ca.get(), ca.get(), NID_subject_key_identifier, "hash") ||
      X509_sign(ca.get(), key, EVP_sha256()) == 0)
    return nullptr;
  return ca;
}

Certificate make_leaf(const CertificateOrder& order, EVP_PKEY* key, X509* ca, EVP_PKEY* ca_key) {
  Certificate leaf = begin(order, key);
  if (!leaf) return nullptr;
  std::string names;
  for (const std::string& name : order.dns_names) names += (names.empty() ? "DNS:" : ",DNS:") + name;
  // A common name has 64 characters at most; clients look at the other names only.
  const std::string common = order.dns_names.front().size() <= 64 ? order.dns_names.front() : std::string();
  if (!add_entry(X509_get_subject_name(leaf.get()), "CN", common) ||
      X509_set_issuer_name(leaf.get(), X509_get_subject_name(ca)) != 1 ||
      !add_extension(leaf.get(), ca, NID_basic_constraints, "critical,CA:FALSE") ||
      !add_extension(leaf.get(), ca, NID_key_usage, "critical,digitalSignature") ||
      !add_extension(leaf.get(), ca, NID_ext_key_usage, "serverAuth") ||
      !add_extension(leaf.get(), ca, NID_authority_key_identifier, "keyid:always") ||
      !add_extension(leaf.get(), ca, NID_subject_alt_name, (common.empty() ? "critical," : "") + names) ||
      X509_sign(leaf.get(), ca_key, EVP_sha256()) == 0)
    return nullptr;
  return leaf;
}

std::string text_of(BIO* bio) {
  char* data = nullptr;
  const long length = BIO_get_mem_data(bio, &data);
  return length > 0 ? std::string(data, static_cast<std::size_t>(length)) : std::string();
}

std::string to_pem(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  return bio && PEM_write_bio_X509(bio.get(), certificate) == 1 ? text_of(bio.get()) : std::string();
}

std::string to_pem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (!bio || PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) return {};
  return text_of(bio.get());
}

std::int64_t seconds_of(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? static_cast<std::int64_t>(::timegm(&parts)) : 0;
}

Bio reader(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

}  // namespace

Result<MadeCertificate> make_certificate(const CertificateOrder& order) {
  ERR_clear_error();
  if (order.dns_names.empty()) return failure("a certificate needs a name");
  const Key ca_key(EVP_EC_gen("P-256")), key(EVP_EC_gen("P-256"));
  if (!ca_key || !key) return failure("cannot make a key");
  const Certificate ca = make_ca(order, ca_key.get());
  if (!ca) return failure("cannot make a CA certificate");
  const Certificate leaf = make_leaf(order, key.get(), ca.get(), ca_key.get());
  if (!leaf) return failure("cannot make a certificate");
  MadeCertificate made{to_pem(ca.get()), to_pem(leaf.get()), to_pem(key.get())};
  if (made.ca.empty() || made.certificate.empty() || made.key.empty()) return failure("cannot write a certificate");
  return made;
}

Result<CertificateFacts> read_certificate(const std::string& pem) {
  const Bio bio = reader(pem);
  const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (!certificate) return failure("not a certificate");
  CertificateFacts facts;
  facts.from = seconds_of(X509_get0_notBefore(certificate.get()));
  facts.until = seconds_of(X509_get0_notAfter(certificate.get()));
  std::array<char, 256> issuer{};
  if (X509_NAME_get_text_by_NID(X509_get_issuer_name(certificate.get()), NID_commonName, issuer.data(), issuer.size()) >
      0)
    facts.issuer = issuer.data();
  const Names names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    facts.dns_names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                                 static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
  }
  return facts;
}

std::vector<std::string> split_bundle(const std::string& pem, std::int64_t now) {
  std::vector<std::string> out;
  const Bio bio = reader(pem);
  for (;;) {
    const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (!certificate) break;
    if (seconds_of(X509_get0_notAfter(certificate.get())) >= now) out.push_back(to_pem(certificate.get()));
  }
  ERR_clear_error();  // the end of the text is reported as an error
  return out;
}

}  // namespace warmroute::net
