#pragma once
// TLS of the inference listener: certificate and key from files, read again when their content changes. A pair that
// does not load leaves the old one in place.

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "net/tls.hpp"
#include "warmroute/result.hpp"

namespace warmroute::net {

class ServerTls {
 public:
  static Result<std::unique_ptr<ServerTls>> create(std::string certificate_file, std::string key_file);
  ~ServerTls();
  ServerTls(const ServerTls&) = delete;
  ServerTls& operator=(const ServerTls&) = delete;

  /// A server session bound to the descriptor. Thread-safe. ALPN offers http/1.1 only.
  [[nodiscard]] SslPtr session(int descriptor) const;
  /// Reads the files again when their content changed. \return true when a new pair is in force. Control thread.
  Result<bool> reload_if_changed();

 private:
  ServerTls(std::string certificate_file, std::string key_file)
      : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {}
  Result<std::shared_ptr<ssl_ctx_st>> load(const std::string& certificate, const std::string& key) const;

  const std::string certificate_file_, key_file_;
  std::string seen_;  ///< content of both files when they were last looked at
  mutable std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace warmroute::net
