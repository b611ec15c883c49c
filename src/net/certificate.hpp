#pragma once
// Certificates of our own making, and what a certificate says. PEM texts.

#include <cstdint>
#include <string>
#include <vector>

#include "warmroute/result.hpp"

namespace warmroute::net {

struct CertificateOrder {
  std::string authority;               ///< common name of the CA
  std::string organisation;            ///< of the CA
  std::vector<std::string> dns_names;  ///< at least one; the first is the certificate's common name
  std::int64_t from = 0, until = 0;    ///< unix seconds, of both
};

struct MadeCertificate {
  std::string ca;                ///< the CA's certificate; its key is thrown away
  std::string certificate, key;  ///< of the server
};

/// A CA for this one purpose and a server certificate signed by it, on the curve P-256 (microseconds, so it may run on
/// the control thread).
[[nodiscard]] Result<MadeCertificate> make_certificate(const CertificateOrder& order);

struct CertificateFacts {
  std::string issuer;                ///< common name
  std::int64_t from = 0, until = 0;  ///< unix seconds
  std::vector<std::string> dns_names;
};

/// Of the first certificate in the text.
[[nodiscard]] Result<CertificateFacts> read_certificate(const std::string& pem);

/// The certificates of a bundle one by one, those left out that ended before `now`.
[[nodiscard]] std::vector<std::string> split_bundle(const std::string& pem, std::int64_t now);

}  // namespace warmroute::net
