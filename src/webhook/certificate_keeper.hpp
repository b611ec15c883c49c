#pragma once
// Keeps a certificate in the webhook's listener: from the Secret, else from files, else made here and stored in the
// Secret; what the Secret says last is what counts, so that replicas agree. Looks again from time to time, so a new
// certificate needs no restart, and has the API server trust it (caBundle). Control thread.
//
// | what is missing or refused                 | then                                                                |
// |--------------------------------------------|---------------------------------------------------------------------|
// | the API server does not answer             | what is in force stays; without anything, the files                  |
// | Secret and files                           | one is made and stored; who comes second takes the first one's       |
// | the right to read or to store the Secret   | files alone; said once                                              |
// | the webhook configuration                  | nothing to do                                                       |
// | a certificate of our own near its end      | the leader makes another; old and new CA are trusted side by side    |

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kube/api.hpp"
#include "net/server_tls.hpp"

namespace warmroute::webhook {

struct KeeperOptions {
  std::string ns;
  std::string secret_name;
  std::string service_name;  ///< the certificate is for SERVICE.NS.svc
  std::string certificate_file, key_file;
  std::string configuration = "kthena-router-validating-webhook";
  std::chrono::milliseconds period{30'000};  ///< between two looks when all is well
  std::chrono::milliseconds retry{2'000};    ///< when it is not
};

struct KeeperHooks {
  std::function<bool()> leads;                       ///< this replica renews
  std::function<std::int64_t()> now;                 ///< unix seconds
  std::function<void(std::int64_t until)> in_force;  ///< a certificate was taken; the end of its life; may be empty
};

struct KeeperState;

class CertificateKeeper {
 public:
  /// \param tls outlives the keeper.
  CertificateKeeper(net::io_context& control, kube::Api api, net::ServerTls& tls, KeeperOptions options,
                    KeeperHooks hooks);
  ~CertificateKeeper();  ///< stop()
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;
  /// The work, until stop(): for a TaskGroup, once.
  [[nodiscard]] net::Task<> run();
  void stop();

 private:
  std::shared_ptr<KeeperState> state_;  ///< shared with the coroutine under way
};

}  // namespace warmroute::webhook
