#pragma once
// Step 11: response bytes to the client as they arrive, a copy to the usage scanner (decision 3.5). Reads the engine
// only when the client took what was there. Previous step: proxy/attempt.cpp, next: proxy/finish.cpp.

#include <optional>

#include "openai/usage_scanner.hpp"
#include "proxy/engine_call.hpp"
#include "proxy/exchange.hpp"

namespace warmroute::proxy {

class Relay {
 public:
  /// \param usage_was_added the router asked for usage: the usage event is removed from an event stream.
  Relay(Exchange& exchange, EngineAnswer& answer, bool usage_was_added);

  /// Called when the answer is complete and before its last bytes go out, so that the client's next request finds this
  /// one counted and recorded.
  void on_complete(void (*hook)(void*), void* owner) noexcept {
    on_complete_ = hook;
    on_complete_owner_ = owner;
  }

  enum class Step : std::uint8_t { need_more, complete, cut };
  /// Sends what of `data` is payload. Synchronous; flush() of the session is due when `flush_due` is set.
  Step take(std::string_view data, bool& flush_due);
  /// The engine closed. Complete when the body ends that way; else cut.
  Step take_eof(bool& flush_due);
  /// After a cut in mid-stream: an SSE client gets an error event, nobody gets an orderly end.
  void send_cut(std::string_view why, bool& flush_due);

  /// The head was given to the client's socket: no other pod can be tried any more.
  [[nodiscard]] bool started() const noexcept { return started_; }
  [[nodiscard]] const openai::Usage& usage() const noexcept { return scanner_.usage(); }

 private:
  void emit(bool last, bool& flush_due);
  void build_head();

  Exchange& exchange_;
  EngineAnswer& answer_;
  http::Framing framing_;  ///< towards the client
  openai::UsageScanner scanner_;
  void (*on_complete_)(void*) = nullptr;
  void* on_complete_owner_ = nullptr;
  std::string head_;  ///< until it is sent
  bool event_stream_ = false, started_ = false, no_body_ = false;
  bool may_hold_ = false;  ///< the scanner may take an event out
};

}  // namespace warmroute::proxy
