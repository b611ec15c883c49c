#pragma once
// events.k8s.io/v1 Events, what `kubectl describe` shows below an object. No I/O.

#include <string>

#include "status/judge.hpp"
#include "status/timestamp.hpp"

namespace warmroute::status {

struct Event {
  bool warning = false;
  std::string reason, note;
  std::string action;    ///< what we did, one word
  std::string instance;  ///< this replica
};

/// \param number tells apart what happens at the same moment.
[[nodiscard]] std::string event_json(const Verdict& about, const Event& event, Moment now, std::uint64_t number);

}  // namespace warmroute::status
