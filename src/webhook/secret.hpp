#pragma once
// The Secret that holds the webhook's certificate and the webhook configuration that trusts it: what their JSON says,
// and what we send. No I/O.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "net/certificate.hpp"
#include "warmroute/result.hpp"

namespace warmroute::webhook {

/// PEM texts, empty where the Secret has none.
struct StoredCertificate {
  std::string resource_version;
  std::string certificate, key;
  std::string ca;
};
[[nodiscard]] Result<StoredCertificate> parse_secret(const std::string& json);
/// A new Secret, of type kubernetes.io/tls.
[[nodiscard]] std::string secret_json(const std::string& ns, const std::string& name, const StoredCertificate& content);
/// A merge patch that only fits `content.resource_version`.
[[nodiscard]] std::string secret_patch(const StoredCertificate& content);

/// Names of the webhooks in a ValidatingWebhookConfiguration whose caBundle lacks a certificate of `ca` that has not
/// ended at `now` (unix seconds). A bundle with more is good as it is: the leader may be about to renew.
[[nodiscard]] Result<std::vector<std::string>> webhooks_without(const std::string& json, const std::string& ca,
                                                                std::int64_t now);
/// A strategic merge patch that gives them `ca`.
[[nodiscard]] std::string bundle_patch(const std::vector<std::string>& webhooks, const std::string& ca);

}  // namespace warmroute::webhook
