#include "net/listener.hpp"

#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <limits>
#include <string_view>

#include "base/log.hpp"

namespace warmroute::net {
namespace ip = boost::asio::ip;

Result<std::uint16_t> open_acceptor(Acceptor& acceptor, const std::string& address, std::uint16_t port) {
  const auto attempt = [&](const ip::tcp::endpoint& endpoint, bool dual_stack) {
    error_code ec;
    acceptor.open(endpoint.protocol(), ec);
    if (!ec) acceptor.set_option(Acceptor::reuse_address(true), ec);
    if (!ec && dual_stack) acceptor.set_option(ip::v6_only(false), ec);
    if (!ec) acceptor.bind(endpoint, ec);
    if (!ec) acceptor.listen(4096, ec);
    if (!ec) acceptor.native_non_blocking(true, ec);
    if (ec) {
      error_code ignored;
      acceptor.close(ignored);
    }
    return ec;
  };
  error_code ec;
  if (address.empty()) {
    ec = attempt({ip::address_v6::any(), port}, true);
    if (ec == boost::asio::error::address_family_not_supported || ec.value() == EADDRNOTAVAIL)
      ec = attempt({ip::address_v4::any(), port}, false);
  } else {
    const auto parsed = ip::make_address(address, ec);
    if (!ec) ec = attempt({parsed, port}, false);
  }
  if (ec) return Error{Errc::io, Source::internal, Retry::never, ec.message()};
  return acceptor.local_endpoint().port();
}

Listener::Listener(io_context& control, std::vector<Worker*> workers, OnConnection on_connection)
    : workers_(std::move(workers)),
      on_connection_(std::move(on_connection)),
      acceptor_(control),
      pause_(control),
      tasks_(control) {}

Listener::~Listener() { close(); }

Result<std::uint16_t> Listener::listen(const Options& options) {
  options_ = options;
  auto port = open_acceptor(acceptor_, options.address, options.port);
  if (port) tasks_.spawn("accept loop", accept_loop());
  return port;
}

void Listener::refuse_new() noexcept {
  // A socket filter on the TCP header: byte 13 holds the flags, 0x02 is SYN. Without it a close of the listener resets
  // connections that their clients take for established. Where the kernel has no filters, that window stays.
  std::array<sock_filter, 4> program{{BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
                                      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x02, 0, 1), BPF_STMT(BPF_RET | BPF_K, 0),
                                      BPF_STMT(BPF_RET | BPF_K, 0xffffffff)}};
  const sock_fprog filter{program.size(), program.data()};
  (void)::setsockopt(acceptor_.native_handle(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

void Listener::stop() {
  if (!stopped_ && acceptor_.is_open()) (void)accept_waiting(std::numeric_limits<int>::max());
  close();
}

void Listener::close() {
  stopped_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
}

Task<> Listener::accept_loop() {
  while (!stopped_) {
    auto [ec] = co_await acceptor_.async_wait(Acceptor::wait_read, as_result);
    if (stopped_ || ec == boost::asio::error::operation_aborted) co_return;
    if (accept_waiting(64)) continue;
    // Out of descriptors or memory: the connection stays in the queue; spinning would not help.
    log::warning("accepting pauses for 100 ms: {}", error_code(errno, boost::system::system_category()).message());
    pause_.expires_after(std::chrono::milliseconds(100));
    auto [ignored] = co_await pause_.async_wait(as_result);
    (void)ignored;
  }
}

// False: an error that only time can heal; errno says which.
bool Listener::accept_waiting(int most) {
  for (int i = 0; i < most; ++i) {
    const int descriptor = ::accept4(acceptor_.native_handle(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (descriptor >= 0) {
      hand_over(descriptor);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return false;
    }
  }
  return true;
}

void Listener::hand_over(int descriptor) {
  std::size_t total = 0;
  Worker* least = nullptr;
  // Starting at another worker each time spreads equal counts.
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    Worker* worker = workers_[(next_ + i) % workers_.size()];
    const auto count = worker->connections.load(std::memory_order_relaxed);
    total += count;
    if (least == nullptr || count < least->connections.load(std::memory_order_relaxed)) least = worker;
  }
  ++next_;
  const bool over_limit = options_.max_connections != 0 && total >= options_.max_connections;
  if (over_limit) refused_.fetch_add(1, std::memory_order_relaxed);
  if (over_limit && total >= options_.max_connections + spare_connections) {
    refuse(descriptor);
    return;
  }
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  least->connections.fetch_add(1, std::memory_order_relaxed);
  boost::asio::post(least->io(), [this, least, descriptor, over_limit] {
    Socket socket(least->io());
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&name), &size);
    error_code ec;
    socket.assign(name.ss_family == AF_INET6 ? ip::tcp::v6() : ip::tcp::v4(), descriptor, ec);
    if (ec) {
      ::close(descriptor);
      least->connections.fetch_sub(1, std::memory_order_relaxed);
      return;
    }
    on_connection_(*least, std::move(socket), over_limit);
  });
}

void Listener::refuse(int descriptor) const {
  static constexpr std::string_view answer =
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
      "Content-Length: 118\r\n\r\n"
      R"({"error":{"message":"the router has too many connections","type":"overloaded_error","param":null,"code":"overloaded"}})";
  // One try into the empty send buffer; a client that cannot take it gets the close alone.
  if (!options_.tls) (void)::send(descriptor, answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::shutdown(descriptor, SHUT_WR);
  ::close(descriptor);
}

}  // namespace warmroute::net
