#pragma once
// Writes conditions into the status of ModelRoutes and ModelServers, and Events about what turned bad or good again.
// Only while this replica leads; only what differs; one request after the other with a pause between them, so that the
// API server never feels it. Control thread.
//
// | the API server                              | then                                                               |
// |---------------------------------------------|--------------------------------------------------------------------|
// | refuses (403) status or Events              | said once; no more of that kind                                    |
// | drops the conditions (CRDs without them)    | said once; no more status of that kind, Events go on               |
// | does not know the object (404), a conflict  | forgotten; judged anew at the next change                          |
// | fails otherwise                             | the others go on; again after a pause that doubles. After three    |
// |                                             | failures all wait                                                  |

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kube/api.hpp"
#include "status/judge.hpp"

namespace warmroute::status {

struct WriterOptions {
  std::string instance;                     ///< of Events
  std::chrono::milliseconds gather{1'000};  ///< from a change to the look at it: several become one
  std::chrono::milliseconds pace{300};      ///< between two requests
  std::chrono::milliseconds retry{5'000};   ///< after a failure; doubles
  std::chrono::milliseconds retry_max{120'000};
  std::chrono::milliseconds event_again{600'000};  ///< the same Event about the same object
};

struct WriterHooks {
  std::function<bool()> leads;
  std::function<std::vector<Verdict>()> verdicts;  ///< of everything, now
  std::function<Moment()> now;
};

struct WriterState;

class Writer {
 public:
  Writer(net::io_context& control, kube::Api api, WriterOptions options, WriterHooks hooks);
  ~Writer();  ///< stop()
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  /// The work, until stop(): for a TaskGroup, once.
  [[nodiscard]] net::Task<> run();
  /// Something may have changed: objects, pods, or who leads. Cheap; any number of times.
  void wake();
  void stop();

 private:
  std::shared_ptr<WriterState> state_;  ///< shared with the coroutine under way
};

}  // namespace warmroute::status
