#pragma once
// Who we are towards the API server, kept fresh: token files, certificates and CA files are read again when they
// change, exec plugins run again when what they gave expires or was refused. Control thread.

#include <memory>
#include <string>

#include "kube/config.hpp"
#include "net/task.hpp"
#include "net/tls.hpp"

namespace warmroute::kube {

/// What one request, or one connection, needs.
struct Identity {
  std::string authorization;                  ///< value of the Authorization header; empty: none
  std::shared_ptr<const net::ClientTls> tls;  ///< null: clear text
};

struct AuthTiming {
  std::chrono::milliseconds reread{10'000};  ///< files are looked at when the last look is older
  std::chrono::milliseconds exec_timeout{30'000};
};

class Authenticator {
 public:
  Authenticator(net::io_context& io, Config config, AuthTiming timing = {});
  ~Authenticator();
  /// Errors: no identity was ever had. A file that cannot be read later leaves the last one in force, logged.
  net::Task<Result<Identity>> identity();
  /// The API server said 401: the next identity() reads files and runs the plugin again.
  void refused();
  /// Whoever waits for a running plugin gets Errc::cancelled; the plugin itself ends at its time-out.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace warmroute::kube
