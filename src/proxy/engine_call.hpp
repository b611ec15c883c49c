#pragma once
// Step 10: one HTTP exchange with one pod, up to the head of its answer; whoever made the call reads the body.
// Previous step: proxy/attempt.cpp.

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "model/snapshot.hpp"
#include "proxy/exchange.hpp"
#include "proxy/outgoing.hpp"

namespace warmroute::proxy {

/// An engine's answer whose head was read. `input` holds what came behind the head.
struct EngineAnswer {
  base::Bytes bytes;  ///< of the head; `head` points into it
  http::Head head;
  http::ResponseParser parser;
  base::Bytes input;
};

/// Lives in the frame of its caller; the destructor closes what was not given back. `server` and `pod` outlive it.
class EngineCall {
 public:
  EngineCall(Exchange& exchange, const model::ServerEntry& server, const model::PodEntry& pod);
  EngineCall(const EngineCall&) = delete;
  EngineCall& operator=(const EngineCall&) = delete;

  /// Leases a kept connection or connects, sends, receives the head into `answer`; once more on a fresh connection
  /// when a kept one turned out to be closed. The response-header time-out runs meanwhile and stays set.
  net::Task<std::optional<Error>> exchange_heads(
      const Outgoing& outgoing);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  /// Waits until there is something to read; it is in the worker's scratch buffer then. Io::error when the deadline
  /// passed or the client left.
  net::Task<net::IoResult> read();
  /// Puts the connection back into the pool, if it can serve another request. The answer was read to its end.
  void give_back();
  /// The engine stops working for nobody.
  void close() noexcept { engine_.reset(); }
  /// Ends whatever is awaited: the client left.
  void wake();
  /// The same because nobody wants the answer any more.
  void abandon() {
    abandoned_ = true;
    wake();
  }

  [[nodiscard]] net::Deadline& deadline() noexcept { return deadline_; }
  /// A limit cut down to what the total time-out leaves.
  [[nodiscard]] std::chrono::milliseconds limited(std::chrono::milliseconds limit) const;
  [[nodiscard]] bool timed_out() const noexcept { return late_; }
  /// Timed out because the whole request's time was up.
  [[nodiscard]] bool out_of_total_time() const;
  [[nodiscard]] bool abandoned() const noexcept { return abandoned_; }

  EngineAnswer answer;

 private:
  enum class Phase : std::uint8_t { connecting, sending, waiting };

  [[nodiscard]] bool gone() const noexcept { return abandoned_ || exchange_.session.client_left(); }
  net::Task<std::optional<Error>> connect();
  net::Task<std::optional<Error>> handshake();
  net::Task<std::optional<Error>> send(
      const Outgoing& outgoing);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  net::Task<net::error_code> wait_for_room();
  void on_early_bytes();
  net::Task<std::optional<Error>> receive_head();
  [[nodiscard]] Error failure(Errc code, std::string why, bool nothing_came) const;

  Exchange& exchange_;
  const model::ServerEntry& server_;
  const model::PodEntry& pod_;
  net::Deadline deadline_;
  std::unique_ptr<net::Socket> connecting_;
  std::unique_ptr<net::Connection> engine_;
  Phase phase_ = Phase::connecting;
  bool reused_ = false, late_ = false, abandoned_ = false;
  bool cut_short_ = false;  ///< the engine did not get the whole request: the connection serves no other
};

}  // namespace warmroute::proxy
