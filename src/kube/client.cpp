#include "kube/client.hpp"

#include <algorithm>
#include <list>
#include <utility>
#include <vector>

#include "kube/api_connection.hpp"
#include "kube/rate_limit.hpp"
#include "kube/status.hpp"

namespace warmroute::kube {
namespace {

using net::Clock;
using ConnectionPtr = std::shared_ptr<ApiConnection>;

constexpr std::size_t idle_limit = 2;
constexpr std::chrono::seconds idle_time{30};
constexpr std::chrono::seconds connect_time{10};  ///< TLS included: the next try may reach another server
constexpr std::size_t refusal_limit_bytes = 1U << 20U;

Error failed(Errc code, std::string detail) { return Error{code, Source::internal, Retry::never, std::move(detail)}; }

struct Idle {
  ConnectionPtr connection;
  std::shared_ptr<const net::ClientTls> tls;  ///< what it was opened with
  Clock::time_point since;
};

}  // namespace

std::string Response::text() const {
  std::string out = std::to_string(status);
  if (!reason.empty()) out += " " + reason;
  if (!message.empty()) out += ": " + message;
  return out;
}

std::string query_escaped(std::string_view text) {
  constexpr std::string_view hex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += hex[byte >> 4U];
    out += hex[byte & 15U];
  }
  return out;
}

struct Client::Impl {
  Impl(net::io_context& control, Config given, const ClientOptions& options)
      : io(control),
        config(std::move(given)),
        authenticator(control, config, options.auth),
        limit(options.qps, options.burst, Clock::now()) {}

  net::io_context& io;
  const Config config;
  Authenticator authenticator;
  RateLimit limit;
  std::vector<Idle> idle;
  std::list<std::weak_ptr<ApiConnection>> open;  ///< for close()
  std::list<std::weak_ptr<net::Timer>> turns;    ///< requests that wait for their turn
  bool closed = false;

  ConnectionPtr track(ConnectionPtr connection) {
    open.remove_if([](const auto& entry) { return entry.expired(); });
    open.push_back(connection);
    return connection;
  }

  /// An idle connection that still lives and was opened with this identity's TLS; null when there is none.
  ConnectionPtr take_idle(const Identity& identity) {
    while (!idle.empty()) {
      Idle last = std::move(idle.back());
      idle.pop_back();
      if (last.tls == identity.tls && Clock::now() - last.since < idle_time && last.connection->reusable())
        return last.connection;
    }
    return nullptr;
  }
  void give_back(ConnectionPtr connection, const Identity& identity) {
    if (closed || !connection->reusable()) return;
    connection->set_deadline(Clock::time_point::max());
    if (idle.size() >= idle_limit) idle.erase(idle.begin());
    idle.push_back({std::move(connection), identity.tls, Clock::now()});
  }

  [[nodiscard]] std::string head(const Request& request, const Identity& identity) const {
    const bool v6 = config.host.find(':') != std::string::npos;
    std::string text = request.method + " " + config.path_prefix + request.path + " HTTP/1.1\r\nHost: ";
    text += v6 ? "[" + config.host + "]" : config.host;
    if (config.port != (config.tls ? 443 : 80)) text += ":" + std::to_string(config.port);
    text += "\r\nUser-Agent: warmroute/" WARMROUTE_VERSION "\r\nAccept: application/json\r\n";
    if (!identity.authorization.empty()) text += "Authorization: " + identity.authorization + "\r\n";
    if (!request.body.empty()) {
      text += "Content-Type: " + (request.content_type.empty() ? "application/json" : request.content_type) + "\r\n";
    }
    if (!request.body.empty() || request.method != "GET")
      text += "Content-Length: " + std::to_string(request.body.size()) + "\r\n";
    return text + "\r\n";
  }

  static net::Task<Result<ConnectionPtr>> connect(std::shared_ptr<Impl> self, Identity identity,
                                                  Clock::time_point deadline) {
    auto connection = self->track(std::make_shared<ApiConnection>(self->io));
    connection->set_deadline(std::min(deadline, Clock::now() + connect_time));
    ApiConnection::Target target;
    target.host = self->config.host;
    target.port = self->config.port;
    target.tls_name = self->config.tls_server_name.empty() ? self->config.host : self->config.tls_server_name;
    target.tls = identity.tls;
    auto opened = co_await connection->open(std::move(target));
    // No time-out of an answer: nobody was there to give one.
    if (!opened && opened.error().code == Errc::timeout) co_return failed(Errc::io, "connect: no answer in time");
    if (!opened) co_return opened.error();
    connection->set_deadline(deadline);
    co_return connection;
  }

  /// The answer's head, from an idle connection or a new one. An idle one that turns out to be closed is replaced.
  static net::Task<Result<AnswerHead>> begin(std::shared_ptr<Impl> self, Request request, Identity identity,
                                             Clock::time_point deadline, ConnectionPtr& connection) {
    const std::string text = self->head(request, identity) + request.body;
    connection = self->take_idle(identity);
    if (connection) {
      connection->set_deadline(deadline);
      auto sent = co_await connection->send(text);
      Result<AnswerHead> head = AnswerHead();
      if (sent) {
        head = co_await connection->read_head();
      } else {
        head = sent.error();
      }
      // What changes things is not sent twice: the API server may have done it before it closed.
      if (head || request.method != "GET" || !connection->closed_while_idle()) co_return head;
    }
    auto fresh = co_await connect(self, identity, deadline);
    if (!fresh) co_return fresh.error();
    connection = *fresh;
    auto sent = co_await connection->send(text);
    if (!sent) co_return sent.error();
    co_return co_await connection->read_head();
  }

  static net::Task<Result<void>> read_all(ConnectionPtr connection, std::string& body, std::size_t limit_bytes) {
    for (;;) {
      auto more = co_await connection->read_body(body);
      if (!more) co_return more.error();
      if (!*more) co_return Result<void>();
      if (body.size() > limit_bytes) co_return failed(Errc::too_large, "answer: body over the limit");
    }
  }

  static net::Task<Result<Response>> exchange(std::shared_ptr<Impl> self, Request request, Identity identity) {
    ConnectionPtr connection;
    const auto limit_bytes = request.body_limit_bytes;
    const auto deadline = Clock::now() + request.timeout;
    auto head = co_await begin(self, std::move(request), identity, deadline, connection);
    if (!head) co_return head.error();
    if (head->gzip) co_return failed(Errc::unknown_coding, "answer: a content coding that was not asked for");
    Response response;
    response.status = head->status;
    response.retry_after = head->retry_after;
    auto read = co_await read_all(connection, response.body, limit_bytes);
    if (!read) co_return read.error();
    self->give_back(std::move(connection), identity);
    if (!response.ok()) read_status(response.body, response);
    co_return response;
  }

  static net::Task<Result<void>> wait_for_turn(std::shared_ptr<Impl> self, bool urgent) {
    const auto delay = self->limit.take(Clock::now());
    if (!urgent && delay > Clock::duration::zero()) {
      auto turn = std::make_shared<net::Timer>(self->io.get_executor(), delay);
      self->turns.remove_if([](const auto& entry) { return entry.expired(); });
      self->turns.push_back(turn);
      (void)co_await turn->async_wait(net::as_result);
    }
    if (self->closed) co_return failed(Errc::cancelled, "cancelled");
    co_return Result<void>();
  }

  static net::Task<Result<Response>> request(std::shared_ptr<Impl> self, Request request) {
    auto turn = co_await wait_for_turn(self, request.urgent);
    if (!turn) co_return turn.error();
    auto identity = co_await self->authenticator.identity();
    if (!identity) co_return identity.error();
    if (self->closed) co_return failed(Errc::cancelled, "cancelled");
    auto response = co_await exchange(self, request, *identity);
    if (!response || response->status != 401) co_return response;
    self->authenticator.refused();
    auto next = co_await self->authenticator.identity();
    const bool changed =
        next && (next->authorization != identity->authorization || next->tls != identity->tls) && !self->closed;
    if (!changed) co_return response;
    co_return co_await exchange(self, std::move(request), *next);
  }

  static net::Task<Result<Watch>> watch(std::shared_ptr<Impl> self, WatchRequest request);
};

struct WatchStream::Impl {
  ConnectionPtr connection;
  std::chrono::milliseconds silence{0};
  std::size_t limit_bytes = 0;
  std::string text;          ///< received, not given out
  std::size_t searched = 0;  ///< of it, without an end of line
};

WatchStream::WatchStream(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

WatchStream::~WatchStream() { close(); }

void WatchStream::close() { impl_->connection->close(); }

namespace {

/// Not a member: `stream` is the awaiting caller's, who owns it for as long as this runs.
net::Task<Result<std::string>> next_line(WatchStream::Impl& stream) {
  for (;;) {
    const auto end = stream.text.find('\n', stream.searched);
    if (end != std::string::npos) {
      std::string line = stream.text.substr(0, end);
      stream.text.erase(0, end + 1);
      stream.searched = 0;
      if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
      co_return line;
    }
    stream.searched = stream.text.size();
    if (stream.text.size() > stream.limit_bytes) co_return failed(Errc::too_large, "an event over the limit");
    stream.connection->set_deadline(Clock::now() + stream.silence);
    auto more = co_await stream.connection->read_body(stream.text);
    if (!more) co_return more.error();
    if (!*more) co_return failed(Errc::closed, "the stream ended");
  }
}

}  // namespace

net::Task<Result<std::string>> WatchStream::line() { return next_line(*impl_); }

net::Task<Result<Watch>> Client::Impl::watch(std::shared_ptr<Impl> self, WatchRequest request) {
  if (self->closed) co_return failed(Errc::cancelled, "cancelled");
  auto identity = co_await self->authenticator.identity();
  if (!identity) co_return identity.error();
  if (self->closed) co_return failed(Errc::cancelled, "cancelled");
  ConnectionPtr connection;
  Request get("GET", request.path);
  auto head = co_await begin(self, std::move(get), *identity, Clock::now() + request.answer, connection);
  if (!head) co_return head.error();
  Watch watch;
  watch.response.status = head->status;
  watch.response.retry_after = head->retry_after;
  if (!watch.response.ok()) {
    if (head->status == 401) self->authenticator.refused();
    auto read = co_await read_all(connection, watch.response.body, refusal_limit_bytes);
    if (!read) co_return read.error();
    read_status(watch.response.body, watch.response);
    self->give_back(std::move(connection), *identity);
    co_return watch;
  }
  if (head->gzip) co_return failed(Errc::unknown_coding, "answer: a content coding that was not asked for");
  auto stream = std::make_unique<WatchStream::Impl>();
  stream->connection = std::move(connection);
  stream->silence = request.silence;
  stream->limit_bytes = request.line_limit_bytes;
  watch.stream = std::make_unique<WatchStream>(std::move(stream));
  co_return watch;
}

Client::Client(net::io_context& control, Config config, ClientOptions options)
    : impl_(std::make_shared<Impl>(control, std::move(config), options)) {}

Client::~Client() { close(); }

net::Task<Result<Response>> Client::request(Request request) { return Impl::request(impl_, std::move(request)); }

net::Task<Result<Watch>> Client::watch(WatchRequest request) { return Impl::watch(impl_, std::move(request)); }

const Config& Client::config() const noexcept { return impl_->config; }

void Client::close() {
  impl_->closed = true;
  impl_->authenticator.close();
  impl_->idle.clear();
  for (const auto& entry : std::exchange(impl_->open, {}))
    if (const auto connection = entry.lock()) connection->close();
  for (const auto& entry : std::exchange(impl_->turns, {}))
    if (const auto timer = entry.lock()) timer->cancel();
}

}  // namespace warmroute::kube
