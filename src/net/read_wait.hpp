#pragma once
// Waiting for one socket to become readable, over and over: no allocation and, where the last read left the socket
// empty, no system call either.
//
// Asio's own async_wait() cannot know what was read, so it re-arms the edge-triggered descriptor with epoll_ctl at each
// wait: one call more for each relayed event. This is one step below Asio's public interface (detail::reactor_op of
// Boost 1.81, which the build asks for); nothing else in the project goes there.

#include <boost/asio/detail/reactor.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <memory>

#include "net/task.hpp"

namespace warmroute::net {

/// Used on the thread of the socket's io_context. One wait at a time.
class ReadWait : private boost::asio::detail::reactor_op {
 public:
  /// Called when the wait is over, from the top of a handler: something may be read, an end or an error included, or
  /// the socket was closed or its waits cancelled. With `loop_goes`, the io_context is being destroyed.
  using OnEnd = void (*)(void* owner, bool loop_goes);
  ReadWait(Socket& socket, OnEnd on_end, void* owner);
  ReadWait(const ReadWait&) = delete;
  ReadWait& operator=(const ReadWait&) = delete;

  /// \param emptied the last look at the socket left nothing in it, not even the peer's FIN. Without that, what is
  ///        there ends the wait at once.
  /// \param alive kept until on_end was called; owns this.
  void start(Socket& socket, bool emptied, std::shared_ptr<void> alive);
  [[nodiscard]] bool pending() const noexcept { return alive_ != nullptr; }

 private:
  using Operation = boost::asio::detail::operation;
  static status report(reactor_op* self);
  static void complete(void* scheduler, Operation* self, const error_code& ec, std::size_t bytes);

  boost::asio::detail::reactor& reactor_;
  OnEnd on_end_;
  void* owner_;
  std::shared_ptr<void> alive_;
  const Operation* events_ = nullptr;  ///< the reactor's entry, which holds the events it saw last
  bool broken_ = false;                ///< error or hang-up was among them
};

}  // namespace warmroute::net
