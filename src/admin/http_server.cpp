#include "admin/http_server.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>
#include <list>
#include <optional>

#include "admin/http_request.hpp"
#include "base/log.hpp"
#include "net/connection.hpp"
#include "net/task_group.hpp"

namespace warmroute::admin {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using net::error_code;
using Tcp = asio::ip::tcp;

constexpr std::size_t read_step_bytes = 4U << 10U;

struct Connection {
  explicit Connection(net::Socket socket) : stream(std::move(socket)) {}
  net::Connection stream;
  net::Clock::time_point deadline;
  enum class Phase : std::uint8_t {
    handshake,
    idle,  ///< waits for the first byte of a request
    busy
  } phase = Phase::idle;
  std::size_t held_bytes = 0;  ///< for its input
};

/// What the coroutines use. They share it, because a frame that is still suspended when the server is gone is
/// destroyed with the io_context, and closes its connection then.
struct State {
  State(net::io_context& control, std::string n, HttpServer::Handler h, HttpServerLimits l)
      : io(control),
        name(std::move(n)),
        handler(std::move(h)),
        limits(l),
        acceptor(control.get_executor()),
        watchdog(control.get_executor()) {}
  net::io_context& io;
  const std::string name;
  const HttpServer::Handler handler;
  const HttpServerLimits limits;
  HttpServer::PostHandler post_handler;  ///< empty: POST is refused
  std::size_t post_limit_bytes = 0;
  HttpServer::TlsSession tls_session;  ///< empty: clear text
  net::Acceptor acceptor;
  net::Timer watchdog;
  std::list<Connection> connections;
  std::size_t held_bytes = 0;  ///< of all connections
  bool stopped = false;

  void hold(Connection& connection, std::size_t bytes) {
    held_bytes = held_bytes - connection.held_bytes + bytes;
    connection.held_bytes = bytes;
  }
  /// Who holds no more than an equal share is never the one that is too much.
  [[nodiscard]] bool holds_too_much(const Connection& connection) const {
    return held_bytes > limits.input_bytes && connection.held_bytes > limits.input_bytes / limits.connections;
  }
};
using StatePtr = std::shared_ptr<State>;

/// Takes the connection off the list when its coroutine ends, however it ends.
class ConnectionGuard {
 public:
  ConnectionGuard(StatePtr state, std::list<Connection>::iterator connection)
      : state_(std::move(state)), connection_(connection) {}
  ConnectionGuard(const ConnectionGuard&) = delete;
  ConnectionGuard& operator=(const ConnectionGuard&) = delete;
  ~ConnectionGuard() {
    state_->hold(*connection_, 0);
    state_->connections.erase(connection_);
  }
  Connection& operator*() const noexcept { return *connection_; }

 private:
  StatePtr state_;
  std::list<Connection>::iterator connection_;
};

std::string_view reason(int status) { return http::obsolete_reason(static_cast<http::status>(status)).data(); }

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  return text.data();
}

std::string answer_head(const Page& page, bool keep_alive) {
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nDate: {}\r\nContent-Length: {}\r\nConnection: {}\r\n", page.status,
      reason(page.status), page.content_type, http_date(), page.body.size(), keep_alive ? "keep-alive" : "close");
  if (page.status == 405) head += "Allow: GET, HEAD\r\n";
  if (!page.location.empty()) head += "Location: " + page.location + "\r\n";
  head += "\r\n";
  return head;
}

Page error_page(int status) {
  Page page;
  page.status = status;
  page.body = fmt::format("{} {}\n", status, reason(status));
  return page;
}

Page answer(const State& state, const Request& request) {
  if (request.refused != 0) return error_page(request.refused);
  if (!request.post) return state.handler(request.target);
  return state.post_handler({request.target, request.content_type, request.body, request.content_encoding});
}

/// Waits for what an operation could not go on without. True: the connection was closed meanwhile.
net::Task<bool> wait_for(net::Connection& stream, bool writable) {
  if (!writable) co_return bool(co_await stream.wait_readable());
  const error_code ec = co_await stream.wait_writable();
  co_return bool(ec);
}

net::Task<bool> handshake(net::Connection& stream) {
  for (;;) {
    const auto result = stream.try_handshake();
    if (result.status == net::Io::ok) co_return true;
    if (result.status != net::Io::would_block && result.status != net::Io::would_block_write) co_return false;
    if (co_await wait_for(stream, result.status == net::Io::would_block_write)) co_return false;
  }
}

/// Appends what comes next. False: the connection ended.
net::Task<bool> read_more(net::Connection& stream, std::string& input) {
  for (;;) {
    const std::size_t have = input.size();
    input.resize(have + read_step_bytes);
    const auto result = stream.try_read({input.data() + have, read_step_bytes});
    input.resize(have + result.bytes);
    if (result.status == net::Io::ok) co_return true;
    if (result.status != net::Io::would_block && result.status != net::Io::would_block_write) co_return false;
    if (co_await wait_for(stream, result.status == net::Io::would_block_write)) co_return false;
  }
}

net::Task<bool> write_all(net::Connection& stream, std::string_view head, std::string_view body) {
  std::array<iovec, 2> pieces{
      {{const_cast<char*>(head.data()), head.size()}, {const_cast<char*>(body.data()), body.size()}}};
  std::span<iovec> rest(pieces);
  while (!(rest = net::behind(rest, 0)).empty()) {
    const auto result = stream.try_write(rest);
    if (result.status == net::Io::ok) {
      rest = net::behind(rest, result.bytes);
      continue;
    }
    if (result.status != net::Io::would_block && result.status != net::Io::would_block_read) co_return false;
    if (co_await wait_for(stream, result.status == net::Io::would_block)) co_return false;
  }
  co_return true;
}

/// Answers requests until the client, a deadline or an error ends the connection.
net::Task<> serve(StatePtr state, std::list<Connection>::iterator place) {
  const ConnectionGuard guard(state, place);
  Connection& connection = *guard;
  if (state->tls_session) {
    net::SslPtr session = state->tls_session(connection.stream.socket().native_handle());
    if (!session) co_return;
    connection.stream.start_tls(std::move(session));
    connection.deadline = net::Clock::now() + state->limits.head;
    if (!co_await handshake(connection.stream)) co_return;
    connection.phase = Connection::Phase::idle;
    connection.deadline = net::Clock::now() + state->limits.idle;
  }
  std::string input;
  while (!state->stopped) {
    Request request = read_request(
        input, state->post_handler ? std::optional(state->post_limit_bytes) : std::optional<std::size_t>());
    state->hold(connection, input.capacity());
    if (!request.complete && state->holds_too_much(connection)) {
      request.complete = true;
      request.refused = 503;
    }
    if (!request.complete) {
      const bool first = input.empty();
      connection.phase = first ? Connection::Phase::idle : Connection::Phase::busy;
      if (!co_await read_more(connection.stream, input)) co_return;
      if (first) connection.deadline = net::Clock::now() + state->limits.head;
      continue;
    }
    std::string(input, request.used).swap(input);  // the memory of a large body goes, too
    state->hold(connection, input.capacity());
    connection.phase = Connection::Phase::busy;
    connection.deadline = net::Clock::now() + state->limits.idle;
    const bool keep_alive = request.keep_alive && request.refused == 0;
    const Page page = answer(*state, request);
    const std::string head = answer_head(page, keep_alive);
    if (!co_await write_all(connection.stream, head, request.head_only ? std::string_view() : page.body)) co_return;
    if (!keep_alive) co_return;
    connection.deadline = net::Clock::now() + state->limits.idle;
  }
}

/// Closes connections whose deadline has passed; sleeps while there are none.
net::Task<> watch(StatePtr state) {
  const auto grain = std::min<net::Clock::duration>(std::chrono::seconds(1), state->limits.head / 4);
  while (!state->stopped) {
    if (state->connections.empty())
      state->watchdog.expires_at(net::Clock::time_point::max());
    else
      state->watchdog.expires_after(grain);
    auto [ec] = co_await state->watchdog.async_wait(net::as_result);
    (void)ec;  // woken by a new connection or by stop()
    const auto now = net::Clock::now();
    for (auto& connection : state->connections) {
      if (connection.deadline <= now) connection.stream.close();
    }
  }
}

/// The one that has been in that phase for longest; null: none is.
Connection* oldest(State& state, Connection::Phase phase) {
  Connection* found = nullptr;
  for (Connection& each : state.connections) {
    if (each.phase != phase || !each.stream.is_open()) continue;
    if (found == nullptr || each.deadline < found->deadline) found = &each;
  }
  return found;
}

/// At the limit the connection that is idle longest goes; without an idle one, the oldest handshake: those that mean it
/// are done with it in milliseconds. False: all are busy.
bool make_room(State& state) {
  if (state.connections.size() < state.limits.connections) return true;
  Connection* leaves = oldest(state, Connection::Phase::idle);
  if (leaves == nullptr) leaves = oldest(state, Connection::Phase::handshake);
  if (leaves == nullptr) return false;
  leaves->stream.close();
  return true;
}

net::Task<> accept(StatePtr state, net::TaskGroup* group) {
  net::Timer pause(state->io.get_executor());
  while (!state->stopped) {
    net::Socket socket(state->io.get_executor());
    auto [ec] = co_await state->acceptor.async_accept(socket, net::as_result);
    if (state->stopped) co_return;
    if (ec) {
      if (ec == asio::error::operation_aborted) co_return;
      // Out of descriptors, mostly: trying again at once would spin.
      pause.expires_after(std::chrono::milliseconds(100));
      auto [waited] = co_await pause.async_wait(net::as_result);
      (void)waited;
      continue;
    }
    if (!make_room(*state)) continue;
    error_code ignored;
    socket.set_option(Tcp::no_delay(true), ignored);
    const auto place = state->connections.emplace(state->connections.end(), std::move(socket));
    if (state->tls_session) place->phase = Connection::Phase::handshake;
    place->deadline = net::Clock::now() + (state->tls_session ? state->limits.head : state->limits.idle);
    group->spawn("admin connection", serve(state, place));
    state->watchdog.cancel();
  }
}

error_code open_listener(net::Acceptor& acceptor, const Tcp::endpoint& endpoint) {
  error_code ec;
  if (acceptor.is_open()) acceptor.close(ec);
  acceptor.open(endpoint.protocol(), ec);
  if (ec) return ec;
  acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec && endpoint.address().is_v6() && endpoint.address().is_unspecified())
    acceptor.set_option(asio::ip::v6_only(false), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  return ec;
}

error_code open_listener(net::Acceptor& acceptor, const std::string& address, std::uint16_t port) {
  if (address.empty()) {
    const error_code ec = open_listener(acceptor, {asio::ip::address_v6::any(), port});
    if (ec != asio::error::address_family_not_supported && ec != asio::error::no_protocol_option &&
        ec != boost::system::errc::address_not_available)
      return ec;
    return open_listener(acceptor, {asio::ip::address_v4::any(), port});
  }
  error_code ec;
  const auto ip = asio::ip::make_address(address == "localhost" ? "127.0.0.1" : address, ec);
  return ec ? ec : open_listener(acceptor, {ip, port});
}

/// Frees the group when its last coroutine has ended, which takes a few turns of the loop after stop().
void free_when_idle(net::io_context& io, std::unique_ptr<net::TaskGroup> group) {
  if (group->running() == 0) return;
  asio::post(io.get_executor(), [&io, group = std::move(group)]() mutable { free_when_idle(io, std::move(group)); });
}

}  // namespace

struct HttpServer::Impl {
  Impl(net::io_context& control, std::string name, Handler handler, HttpServerLimits limits)
      : state(std::make_shared<State>(control, std::move(name), std::move(handler), limits)),
        group(std::make_unique<net::TaskGroup>(control)) {}
  StatePtr state;
  std::unique_ptr<net::TaskGroup> group;
};

HttpServer::HttpServer(net::io_context& control, std::string name, Handler handler, HttpServerLimits limits)
    : impl_(std::make_unique<Impl>(control, std::move(name), std::move(handler), limits)) {}

HttpServer::~HttpServer() {
  stop();
  free_when_idle(impl_->state->io, std::move(impl_->group));
}

void HttpServer::accept_posts(PostHandler handler, std::size_t body_limit_bytes) {
  impl_->state->post_handler = std::move(handler);
  impl_->state->post_limit_bytes = body_limit_bytes;
}

void HttpServer::use_tls(TlsSession session) { impl_->state->tls_session = std::move(session); }

Result<std::uint16_t> HttpServer::listen(const std::string& address, std::uint16_t port) {
  State& state = *impl_->state;
  if (const error_code ec = open_listener(state.acceptor, address, port))
    return Error{Errc::io, Source::internal, Retry::never,
                 fmt::format("{} listen failed: {}:{}: {}", state.name, address, port, ec.message())};
  error_code ec;
  const auto local = state.acceptor.local_endpoint(ec);
  impl_->group->spawn("admin accept", accept(impl_->state, impl_->group.get()));
  impl_->group->spawn("admin watchdog", watch(impl_->state));
  return ec ? port : local.port();
}

void HttpServer::stop() {
  State& state = *impl_->state;
  state.stopped = true;
  impl_->group->close();
  error_code ignored;  // nothing is left to do about a descriptor that does not close cleanly
  state.acceptor.close(ignored);
  state.watchdog.cancel();
  for (auto& connection : state.connections) connection.stream.close();
}

}  // namespace warmroute::admin
