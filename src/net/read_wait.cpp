#include "net/read_wait.hpp"

#include <sys/epoll.h>

#include <boost/version.hpp>
#include <utility>

static_assert(BOOST_VERSION / 100 == 1081, "ReadWait was checked against the reactor of Boost 1.81");

namespace warmroute::net {
namespace {

using boost::asio::detail::reactor;
using boost::asio::detail::reactor_op;

// The socket's entry with the reactor. basic_socket shows it to derived classes only.
struct Opened : Socket {
  static reactor::per_descriptor_data& of(Socket& socket) {
    return (socket.*&Opened::impl_).get_implementation().reactor_data_;
  }
};

}  // namespace

ReadWait::ReadWait(Socket& socket, OnEnd on_end, void* owner)
    : reactor_op({}, &ReadWait::report, &ReadWait::complete),
      reactor_(boost::asio::use_service<reactor>(socket.get_executor().context())),
      on_end_(on_end),
      owner_(owner) {}

void ReadWait::start(Socket& socket, bool emptied, std::shared_ptr<void> alive) {
  alive_ = std::move(alive);
  ec_ = {};
  auto& entry = Opened::of(socket);
  events_ = (const Operation*)entry;  // NOLINT: a base that the entry hides
  // A reset stands behind the bytes that came before it, and no read says that it is there.
  reactor_.start_op(reactor::read_op, socket.native_handle(), entry, this, false, emptied && !broken_);
}

// The reactor asks when it has an event, or had one while nobody waited: either may be news.
boost::asio::detail::reactor_op::status ReadWait::report(reactor_op* self) {
  auto& wait = *static_cast<ReadWait*>(self);
  if ((wait.events_->*&ReadWait::task_result_ & (EPOLLERR | EPOLLHUP)) != 0) wait.broken_ = true;
  return done_and_exhausted;
}

void ReadWait::complete(void* scheduler, Operation* self, const error_code& /*ec*/, std::size_t /*bytes*/) {
  auto& wait = *static_cast<ReadWait*>(self);
  const auto alive = std::move(wait.alive_);
  wait.on_end_(wait.owner_, scheduler == nullptr);
}

}  // namespace warmroute::net
