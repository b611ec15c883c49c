#pragma once
// The interval before a retry, cut short when the client leaves or the router drains.

#include <chrono>

#include "proxy/exchange.hpp"

namespace warmroute::proxy {

class Pause {
 public:
  Pause(Exchange& exchange, std::chrono::milliseconds length)
      : exchange_(exchange), length_(length), timer_(exchange.session.context().worker.io()) {}
  net::Task<> wait();
  void cancel();

 private:
  Exchange& exchange_;
  std::chrono::milliseconds length_;
  net::Timer timer_;
  bool cancelled_ = false;
};

}  // namespace warmroute::proxy
