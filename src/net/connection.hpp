#pragma once
// One TCP or TLS connection of a worker: non-blocking reads and writes that are tried at once, and waiting apart from
// them, so that an idle connection holds no buffer. One reader and one writer at a time, both on the worker.

#include <sys/uio.h>

#include <boost/asio/error.hpp>
#include <memory>
#include <span>
#include <string>

#include "net/task.hpp"
#include "net/tls.hpp"

namespace warmroute::net {

enum class Io : std::uint8_t {
  ok,
  would_block,        ///< wait_readable() after a read, wait_writable() after a write
  would_block_read,   ///< TLS: this write needs a read first, or the read below
  would_block_write,  ///< TLS: this read needs a write first
  eof,                ///< orderly end (FIN, TLS close_notify)
  error
};

struct IoResult {
  Io status = Io::error;
  std::size_t bytes = 0;
  error_code ec;
};

/// What a wait for readability came to: true when the connection was closed meanwhile.
struct Waited {
  bool closed = false;
  explicit operator bool() const noexcept { return closed; }
  operator error_code() const noexcept {  // NOLINT(google-explicit-constructor): beside waits that have more to say
    return closed ? error_code(boost::asio::error::operation_aborted) : error_code();
  }
};

/// What is left of `pieces` when their first `bytes` are written. Changes the piece that is written in part.
[[nodiscard]] std::span<iovec> behind(std::span<iovec> pieces, std::size_t bytes) noexcept;

class Connection {
 public:
  /// What happens when the connection becomes readable while nobody awaits it. Called on the worker from the top of
  /// a handler. The connection may be destroyed inside.
  using OnReadable = void (*)(void* owner);

  explicit Connection(Socket socket, SslPtr ssl = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// TLS only: would_block waits for a read, would_block_write for a write.
  [[nodiscard]] IoResult try_handshake() noexcept;
  /// Why the handshake failed, for the log.
  [[nodiscard]] std::string tls_failure() const;
  [[nodiscard]] IoResult try_read(std::span<char> into) noexcept;
  /// May write less than asked. At most 64 pieces are taken.
  [[nodiscard]] IoResult try_write(std::span<const iovec> pieces) noexcept;

  /// Waits until a read may find something, the peer closed, or close() was called.
  Task<Waited> wait_readable();
  Task<error_code> wait_writable();

  /// Starts waiting for readability without a coroutine. Readability that was seen and not consumed by try_read is
  /// reported to the next wait_readable() at once.
  void watch(OnReadable on_readable, void* owner);
  /// Stops reporting to `owner`; the wait itself stays and serves the next wait_readable().
  void unwatch() noexcept;
  /// A report of readability turned out to be empty: wait for the next one.
  void forget_readable() noexcept;
  /// Readability was reported and not consumed.
  [[nodiscard]] bool readable() const noexcept;

  /// Resumes whoever awaits readability, although nothing may be there: he looks at his own flags. Only from the top of
  /// a handler, never from inside a coroutine of this worker.
  void interrupt();

  /// Looks without consuming: eof or error when the peer left, ok when bytes wait, would_block when neither.
  [[nodiscard]] IoResult peek() noexcept;
  /// The same, and shows what waits.
  [[nodiscard]] IoResult peek(std::span<char> into) noexcept;
  /// The peer reset the connection or, with `fin_counts`, sent its FIN, also where unread bytes hide that from peek().
  [[nodiscard]] bool peer_closed(bool fin_counts) const noexcept;
  /// The socket holds something to read, an end included. Consumes nothing, not even TLS records.
  [[nodiscard]] bool input_waits() const noexcept;

  /// Ends all waits with operation_aborted. Idempotent.
  void close() noexcept;
  /// Like close(), but the peer sees a reset: for answers whose end only the close would mark, and which are not whole.
  void reset() noexcept;
  /// FIN after what was written; reading goes on.
  void shutdown_send() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return socket_.is_open(); }
  [[nodiscard]] bool is_tls() const noexcept { return ssl_ != nullptr; }
  [[nodiscard]] Socket& socket() noexcept { return socket_; }
  void start_tls(SslPtr ssl) noexcept { ssl_ = std::move(ssl); }

 private:
  struct Watch;
  void arm();

  Socket socket_;
  SslPtr ssl_;
  std::shared_ptr<Watch> watch_;  ///< shared with the wait that is under way
  bool emptied_ = false;          ///< the last look left nothing in the socket, not even a FIN
};

}  // namespace warmroute::net
