#pragma once
// A coordination.k8s.io/v1 Lease as JSON, both ways. No I/O.

#include <cstdint>
#include <string>

#include "status/timestamp.hpp"
#include "warmroute/result.hpp"

namespace warmroute::status {

struct LeaseRecord {
  std::string resource_version;
  std::string holder;      ///< empty: nobody
  std::string renew_time;  ///< as written by the holder; compared, never read
  std::uint32_t duration_seconds = 0;
  std::uint32_t transitions = 0;
};
[[nodiscard]] Result<LeaseRecord> parse_lease(const std::string& json);

/// A new Lease that we hold.
[[nodiscard]] std::string lease_json(const std::string& ns, const std::string& name, const LeaseRecord& record,
                                     Moment now);
/// A merge patch that only fits `record.resource_version`. \param acquired the holder is another than before.
[[nodiscard]] std::string lease_patch(const LeaseRecord& record, Moment now, bool acquired);

}  // namespace warmroute::status
