#pragma once
// Step 2 of a request's life: one client connection. Waits without a buffer, reads heads, hands each to
// serve_request(), until one side wants to close. Next step: proxy/request.cpp.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "http/message_parser.hpp"
#include "net/connection.hpp"
#include "proxy/context.hpp"

namespace warmroute::proxy {

/// Owned by the coroutine run_session(); everything happens on its worker.
class Session {
 public:
  /// `over_limit`: answers health probes and refuses everything else, once, and does not wait long for it.
  Session(WorkerContext& context, net::Socket socket, bool over_limit);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  net::Task<> run();

  // For serve_request() and what it calls -----------------------------------------------------------------------
  [[nodiscard]] WorkerContext& context() noexcept { return context_; }
  [[nodiscard]] Shared& shared() noexcept { return context_.shared; }
  [[nodiscard]] net::Connection& client() noexcept { return client_; }
  /// Bytes received behind the current head: body, or the next request.
  [[nodiscard]] base::Bytes& input() noexcept { return input_; }
  [[nodiscard]] bool over_limit() const noexcept { return over_limit_; }
  [[nodiscard]] net::Deadline& client_deadline() noexcept { return client_deadline_; }
  /// The client deadline passed since the last reset; the waiting coroutine was resumed.
  [[nodiscard]] bool client_late() const noexcept { return client_late_; }
  void reset_client_late() noexcept { client_late_ = false; }

  /// Begins to notice that the client leaves. `on_left` is called once, from the top of a handler.
  void watch_client(void (*on_left)(void*), void* owner);
  void unwatch_client() noexcept;
  [[nodiscard]] bool client_left() const noexcept { return client_left_; }

  /// Writes everything, waiting while the client's socket is full. False when the client is gone or too slow.
  net::Task<bool> write_all(std::string_view bytes);
  /// One try at once; what the socket does not take is kept. True when flush() has to be awaited before the next call.
  [[nodiscard]] bool write_now(std::span<iovec> pieces);
  net::Task<bool> flush();
  [[nodiscard]] bool write_failed() const noexcept { return write_failed_; }

  /// The connection ends with a reset: nothing else tells the client that the answer was cut.
  void end_with_reset() noexcept { end_with_reset_ = true; }

  /// Textual address of the client, for X-Forwarded-For.
  [[nodiscard]] std::string client_address();

  // For the drain --------------------------------------------------------------------------------------------------
  [[nodiscard]] bool idle() const noexcept { return idle_; }
  /// The router accepts nothing any more: ends an idle session, but not one whose request is already in the socket, and
  /// not at once one that has carried none yet: its request may be on the way. From the top of a handler.
  void close_if_idle() noexcept;
  /// Ends the session as if the client had left.
  void abort() noexcept;

 private:
  enum class HeadState { found, closed, answered };
  net::Task<HeadState> read_head();
  net::Task<> refuse(const Error& error);
  net::Task<> linger();
  void on_client_readable() noexcept;
  void check_whether_client_left() noexcept;

  WorkerContext& context_;
  net::Connection client_;
  net::Deadline client_deadline_;
  base::Bytes input_, head_, pending_;
  std::size_t pending_from_ = 0;
  void (*on_left_)(void*) = nullptr;
  void* on_left_owner_ = nullptr;
  std::unique_ptr<net::Deadline> leave_check_;  ///< made for clients that send more than they were asked for
  std::list<Session*>::iterator self_;
  const bool over_limit_;
  bool idle_ = true, served_ = false, client_late_ = false, client_left_ = false, write_failed_ = false,
       flushing_ = false, end_with_reset_ = false;
};

/// Spawned per accepted connection. The context outlives it (NOLINT: the worker owns both).
net::Task<> run_session(WorkerContext& context, net::Socket socket,
                        bool over_limit);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
