#pragma once
// OpenSSL contexts for the listener (certificate reloaded when its files change) and for engines.

#include <memory>
#include <string>

#include "warmroute/result.hpp"

struct ssl_st;
struct ssl_ctx_st;

namespace warmroute::net {

struct SslDeleter {
  void operator()(ssl_st* ssl) const noexcept;
};
using SslPtr = std::unique_ptr<ssl_st, SslDeleter>;

/// What a client session of TLS is made of when it is not in files, or not only a CA: PEM texts.
struct ClientTlsMaterial {
  std::string ca_pem;                    ///< empty: the system's CAs
  std::string certificate_pem, key_pem;  ///< the client's own, with its chain; both or neither
  bool insecure = false;                 ///< no verification at all
};

/// Client side (workloadPort.protocol https, the API server). Immutable after creation, shared by all threads.
class ClientTls {
 public:
  /// \param ca_file empty: the system's CAs. \param insecure no verification at all.
  static Result<std::unique_ptr<ClientTls>> create(const std::string& ca_file, bool insecure);
  static Result<std::unique_ptr<ClientTls>> create(const ClientTlsMaterial& material);
  ~ClientTls();
  ClientTls(const ClientTls&) = delete;
  ClientTls& operator=(const ClientTls&) = delete;
  /// A client session bound to the non-blocking descriptor; SNI and name check for `host` (name or address).
  /// Null when OpenSSL refuses (memory, a name it cannot check): then the connection must not be used.
  [[nodiscard]] SslPtr session(int descriptor, const std::string& host) const;

 private:
  explicit ClientTls(ssl_ctx_st* context) : context_(context) {}
  ssl_ctx_st* context_;
};

}  // namespace warmroute::net
