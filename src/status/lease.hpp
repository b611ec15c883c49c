#pragma once
// Which replica writes status and renews the webhook's certificate: the one that holds a Lease. Routing asks nobody.
// Control thread.
//
// A holder that does not renew for the Lease's duration, by our own clock from when we last saw it change, is replaced;
// clocks of different machines are never compared. Whoever holds it stops believing so some time before others may
// take it. Without the right to Leases (403) nobody leads: said once, asked again from time to time.

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "kube/api.hpp"
#include "status/timestamp.hpp"

namespace warmroute::status {

struct LeaseOptions {
  std::string ns;
  std::string name = "kthena-router";
  std::string identity;  ///< of this replica and start; nobody else's
  std::chrono::seconds duration{15};
  std::chrono::milliseconds believe{10'000};  ///< after the last success; below the duration
  std::chrono::milliseconds renew{4'000};     ///< between two renewals
  std::chrono::milliseconds retry{2'000};     ///< between two looks of one who does not lead
  std::chrono::milliseconds forbidden_retry{300'000};
};

struct LeaseHooks {
  std::function<Moment()> now;
  std::function<void(bool leads)> changed;  ///< on the loop; may be empty
};

struct LeaseState;

class Lease {
 public:
  Lease(net::io_context& control, kube::Api api, LeaseOptions options, LeaseHooks hooks);
  ~Lease();  ///< stop()
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  /// The work, until stop(): for a TaskGroup, once.
  [[nodiscard]] net::Task<> run();
  [[nodiscard]] bool leads() const;
  /// Ends run() and gives the Lease back, so that another replica need not wait for its end. For a TaskGroup.
  [[nodiscard]] net::Task<> release();
  void stop();

 private:
  std::shared_ptr<LeaseState> state_;  ///< shared with the coroutines under way
};

}  // namespace warmroute::status
