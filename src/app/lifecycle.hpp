#pragma once
// Signals and the drain (decision 3.6).
//
// | state    | entered by                     | /readyz | accepts | answers           | left when |
// |----------|--------------------------------|---------|---------|-------------------|---------------------------------|
// | serving  | start                          | 200     | yes     | keep-alive        | SIGTERM, SIGINT | | leaving  |
// SIGTERM                        | 503     | yes     | Connection: close | --drain-delay passed            | | draining
// | leaving's end, or SIGINT       | –       | no      | Connection: close | last request done, DRAIN_TIMEOUT| |
// stopped  | draining's end                 | –       | no      | –                 | process exits 0                 |
//
// A second SIGTERM or SIGINT ends the process at once with status 1.

#include "app/router.hpp"

namespace warmroute::app {

class Lifecycle {
 public:
  Lifecycle(Router& router, std::chrono::milliseconds drain_delay, std::chrono::milliseconds drain_timeout);
  ~Lifecycle();
  /// Begins to listen to signals.
  void start();

 private:
  net::Task<> wait_for_signals();
  net::Task<> drain(bool skip_delay);

  struct Signals;
  Router& router_;
  std::chrono::milliseconds drain_delay_, drain_timeout_;
  std::unique_ptr<Signals> signals_;
  net::Timer timer_;
  bool leaving_ = false;
  net::TaskGroup tasks_;
};

}  // namespace warmroute::app
