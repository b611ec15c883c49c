#pragma once
// TLS of a listener: certificate and key from files, read again when their content changes, or given as text (the
// webhook's). A pair that does not load leaves the old one in place.

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
  /// Without a certificate until use(): sessions are null.
  static std::unique_ptr<ServerTls> create_empty();
  ~ServerTls();
  ServerTls(const ServerTls&) = delete;
  ServerTls& operator=(const ServerTls&) = delete;

  /// A server session bound to the descriptor; null without a certificate. Thread-safe. ALPN offers http/1.1 only.
  [[nodiscard]] SslPtr session(int descriptor) const;
  /// Reads the files again when their content changed. \return true when a new pair is in force. Control thread.
  Result<bool> reload_if_changed();
  /// Takes the PEM texts. \param origin of both, for messages. \return false when they are in force already.
  Result<bool> use(const std::string& certificate, const std::string& key, const std::string& origin);

 private:
  ServerTls(std::string certificate_file, std::string key_file)
      : certificate_file_(std::move(certificate_file)), key_file_(std::move(key_file)) {}
  Result<bool> take(const std::string& certificate, const std::string& certificate_name, const std::string& key,
                    const std::string& key_name);

  const std::string certificate_file_, key_file_;
  std::string seen_;  ///< both texts when they were last looked at
  mutable std::mutex mutex_;
  std::shared_ptr<ssl_ctx_st> context_;
};

}  // namespace warmroute::net
