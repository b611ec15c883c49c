#include "server.hpp"

#include <boost/asio/signal_set.hpp>
#include <charconv>
#include <csignal>
#include <iostream>
#include <list>

#include "answer.hpp"
#include "connection.hpp"
#include "engine.hpp"
#include "net/fetch.hpp"
#include "net/task_group.hpp"
#include "pd.hpp"
#include "sender.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {

namespace asio = boost::asio;
using net::Task;

constexpr std::string_view json_type = "application/json";
constexpr std::string_view bootstrap_path = "/bootstrap/";
constexpr std::chrono::milliseconds room_poll{5};
constexpr std::chrono::seconds room_patience{30};

class Server {
 public:
  Server(net::io_context& io, Options options)
      : io_(io),
        tasks_(io),
        acceptor_(io),
        bootstrap_(io),
        sweep_timer_(io.get_executor()),
        signals_(io),
        engine_(std::move(options)) {}

  bool listen();
  bool listen_on(net::Acceptor& acceptor, std::uint16_t port);
  void start();

 private:
  /// A request that counts as in flight, and as cancelled unless its answer was sent or cut by a fault.
  class RequestGuard {
   public:
    explicit RequestGuard(Counters& counters) : counters_(counters) {
      ++counters_.requests;
      ++counters_.in_flight;
    }
    ~RequestGuard() {
      --counters_.in_flight;
      if (!done_) ++counters_.cancelled;
    }
    RequestGuard(const RequestGuard&) = delete;
    RequestGuard& operator=(const RequestGuard&) = delete;
    void done(bool complete) {
      done_ = true;
      if (complete) ++counters_.finished;
    }
    void done(const Sender& sender) {
      if (sender.complete() || sender.broken_by_fault()) done(sender.complete());
    }

   private:
    Counters& counters_;
    bool done_ = false;
  };

  Task<> accept(net::Acceptor& acceptor);
  Task<> sweep();
  Task<> serve(net::Socket socket);
  Task<bool> handle(Connection& c);
  Task<bool> send(Connection& c, const Fault& fault, const Reply& reply, RequestGuard* guard);
  Task<bool> generate(Connection& c, const Fault& fault, const Job& job, RequestGuard& guard);
  Task<bool> stream(Connection& c, const Fault& fault, const Job& job, const Usage& usage, net::Clock::time_point start,
                    RequestGuard& guard);
  Task<bool> serve_room(Connection& c);
  Task<int> meet(Connection& c, const Job& job);
  [[nodiscard]] std::optional<Reply> simple_reply(const Request& request);
  [[nodiscard]] net::Clock::duration token_gap(const Request& request) const;
  void stop();

  net::io_context& io_;
  net::TaskGroup tasks_;
  net::Acceptor acceptor_, bootstrap_;
  net::Timer sweep_timer_;
  asio::basic_signal_set<net::Executor> signals_;
  Engine engine_;
  Rooms rooms_;
  std::list<Connection*> connections_;
  bool stopping_ = false;
};

bool Server::listen_on(net::Acceptor& acceptor, std::uint16_t port) {
  net::error_code ec;
  const auto& options = engine_.options();
  const auto address = asio::ip::make_address(options.bind, ec);
  const asio::ip::tcp::endpoint endpoint(address, port);
  if (!ec) (void)acceptor.open(endpoint.protocol(), ec);
  if (!ec) (void)acceptor.set_option(asio::socket_base::reuse_address(true), ec);
  if (!ec) (void)acceptor.bind(endpoint, ec);
  if (!ec) (void)acceptor.listen(4096, ec);
  if (ec) std::cerr << "mock-engine: cannot listen on " << options.bind << ':' << port << ": " << ec.message() << '\n';
  return !ec;
}

bool Server::listen() {
  const auto& options = engine_.options();
  if (!listen_on(acceptor_, options.port)) return false;
  const bool meets = options.pd_role == PdRole::prefill && options.pd_connector == PdConnector::sglang;
  if (meets && !listen_on(bootstrap_, options.bootstrap_port)) return false;
  const auto port = acceptor_.local_endpoint().port();
  if (engine_.name().empty()) engine_.set_name("mock-" + std::to_string(port));
  std::cout << "listening on " << acceptor_.local_endpoint() << std::endl;  // flushed: scripts wait for this line
  return true;
}

void Server::start() {
  tasks_.spawn("accept", accept(acceptor_));
  if (bootstrap_.is_open()) tasks_.spawn("bootstrap", accept(bootstrap_));
  tasks_.spawn("sweep", sweep());
  (void)signals_.add(SIGINT);
  (void)signals_.add(SIGTERM);
  signals_.async_wait([this](net::error_code ec, int) {
    if (!ec) stop();
  });
}

void Server::stop() {
  stopping_ = true;
  net::error_code ignored;  // it is going away
  (void)acceptor_.close(ignored);
  (void)bootstrap_.close(ignored);
  sweep_timer_.cancel();
  for (Connection* c : connections_) c->abort();
}

Task<> Server::accept(net::Acceptor& acceptor) {
  while (!stopping_) {
    net::Socket socket(io_);
    auto [ec] = co_await acceptor.async_accept(socket, net::as_result);
    if (stopping_) break;
    if (!ec) {
      tasks_.spawn("connection", serve(std::move(socket)));
      continue;
    }
    net::Timer pause(io_.get_executor(), std::chrono::milliseconds(50));  // out of descriptors: do not spin
    (void)co_await pause.async_wait(net::as_result);                      // only time
  }
}

Task<> Server::sweep() {
  while (!stopping_) {
    sweep_timer_.expires_after(std::chrono::milliseconds(200));
    (void)co_await sweep_timer_.async_wait(net::as_result);  // only time
    const auto then = net::Clock::now() - engine_.options().keep_alive;
    for (Connection* c : connections_)
      if (c->idle_since(then)) c->abort();
  }
}

Task<> Server::serve(net::Socket socket) {
  Connection c(std::move(socket));
  const auto place = connections_.insert(connections_.end(), &c);
  ++engine_.counters.connections;
  while (!stopping_ && co_await c.read_request() && co_await handle(c) && c.keep_alive) {
  }
  co_await c.end();
  connections_.erase(place);
  --engine_.counters.connections;
}

std::optional<Reply> Server::simple_reply(const Request& request) {
  const std::string_view path = request.path();
  const auto text = [](std::string body, std::string_view type) {
    Reply reply;
    reply.type = type;
    reply.body = std::move(body);
    return reply;
  };
  if (path == "/control") return engine_.control(request);
  if (path == "/metrics") return text(engine_.metrics(), "text/plain; version=0.0.4; charset=utf-8");
  if (path == "/health" || path == "/health_generate" || path == "/ping") return text("", "");
  if (path == "/version") return text(R"({"version":")" WARMROUTE_VERSION R"("})", json_type);
  if (path == "/v1/models") return engine_.list_models();
  if (path == "/get_model_info")
    return text(R"({"model_path":)" + json_string(engine_.options().models.front()) + R"(,"is_generation":true})",
                json_type);
  if (path == "/v1/load_lora_adapter" || path == "/load_lora_adapter") return engine_.load_adapter(request.body);
  if (path == "/v1/unload_lora_adapter" || path == "/unload_lora_adapter") return engine_.unload_adapter(request.body);
  return std::nullopt;
}

Task<bool> Server::handle(Connection& c) {
  std::string problem;
  Fault fault = parse_fault(c.request.header("x-mock-fault"), problem);
  if (!fault.any()) fault = engine_.take_fault(c.request.path());
  if (!fault.only.empty() && fault.only != engine_.name()) fault = {};

  if (c.request.header("x-mock-echo").empty()) {
    if (auto reply = simple_reply(c.request)) {
      if (fault.status != 0) reply = error_reply(fault.status, "fault on demand");
      co_return co_await send(c, fault, *reply, nullptr);
    }
  }
  if (c.request.path().starts_with(bootstrap_path)) co_return co_await serve_room(c);
  RequestGuard guard(engine_.counters);
  engine_.last_request = c.request;
  if (engine_.options().latency.count() > 0) {
    const auto until = net::Clock::now() + engine_.options().latency;
    while (net::Clock::now() < until)
      if (!co_await c.wait_until(until)) co_return false;
  }
  std::optional<Reply> reply;
  Job job;
  if (!problem.empty()) {
    reply = error_reply(400, problem);
  } else if (fault.status != 0) {
    reply = error_reply(fault.status, "fault on demand");
    if (fault.retry_after_s >= 0) reply->extra_headers = "retry-after: " + std::to_string(fault.retry_after_s) + "\r\n";
  } else if (!c.request.header("x-mock-echo").empty()) {
    reply = echo_reply(c.request);
  } else if (const auto kind = kind_of(c.request.path()); !kind) {
    reply = error_reply(404, "Not Found");
  } else {
    reply = read_job(*kind, c.request, engine_, job);
  }
  if (!job.protocol_error.empty()) {
    ++engine_.counters.protocol_errors;
    std::cerr << "mock-engine " << engine_.name() << ": protocol error: " << job.protocol_error << std::endl;
  }
  if (reply) co_return co_await send(c, fault, *reply, &guard);
  co_return co_await generate(c, fault, job, guard);
}

Task<bool> Server::send(Connection& c, const Fault& fault, const Reply& reply, RequestGuard* guard) {
  const bool bodiless = c.request.method == "HEAD" || reply.status == 204 || reply.status == 304;
  Sender sender(c, fault, engine_.name(), 2);
  const std::string_view body = bodiless ? std::string_view{} : std::string_view(reply.body);
  const std::size_t half = body.size() / 2;
  bool ok = co_await sender.head(reply.status, reply.type, reply.extra_headers, reply.body.size());
  ok = ok && (bodiless || co_await sender.piece(body.substr(0, half)));
  ok = ok && (bodiless || co_await sender.piece(body.substr(half)));
  ok = ok && co_await sender.finish();
  if (guard != nullptr) guard->done(sender);
  co_return ok;
}

net::Clock::duration Server::token_gap(const Request& request) const {
  double rate = engine_.options().decode_tokens_per_second;
  if (const auto own = request.header("x-mock-tokens-per-second"); !own.empty())
    (void)std::from_chars(own.data(), own.data() + own.size(), rate);  // not a number: the engine's rate stays
  if (rate <= 0) return net::Clock::duration::zero();
  return std::chrono::duration_cast<net::Clock::duration>(std::chrono::duration<double>(1.0 / rate));
}

Task<bool> Server::generate(Connection& c, const Fault& fault, const Job& job, RequestGuard& guard) {
  const auto arrived = net::Clock::now();
  if (fault.at(Where::before_headers)) co_return co_await send(c, fault, error_reply(500, "fault on demand"), &guard);
  Slot slot(engine_, [&c] { c.wake(); });
  while (!slot.running())
    if (!co_await c.wait_until(net::Clock::time_point::max())) co_return false;
  std::optional<Rooms::Stay> stay;
  if (!job.room.empty() && engine_.options().pd_role == PdRole::prefill) stay.emplace(rooms_, job.room);
  if (!job.bootstrap_host.empty()) {
    if (const auto status = co_await meet(c, job); status != 200)
      co_return status != 0 &&
          co_await send(c, fault, error_reply(status, "no cache came from the prefill engine"), &guard);
  }
  // What another engine computed is in this one's cache now.
  if (job.remote_cache || !job.bootstrap_host.empty())
    for (const auto& prompt : job.prompts) engine_.keep_blocks(slot, job.model, prompt);
  const auto prefill = engine_.prefill(slot, job.model, job.prompts, net::Clock::now());
  const Usage usage{prefill.prompt_tokens, prefill.cached_tokens, job.tokens * job.choices};
  while (net::Clock::now() < prefill.done)
    if (!co_await c.wait_until(prefill.done)) co_return false;
  if (stay) {
    stay->room().computed = true;
    while (!stay->room().fetched)
      if (!co_await c.wait_until(net::Clock::now() + room_poll)) co_return false;
  }
  if (job.tokens > 0) engine_.first_token(std::chrono::duration<double>(net::Clock::now() - arrived).count());
  if (job.stream) {
    if (!co_await stream(c, fault, job, usage, prefill.done, guard)) co_return false;
  } else {
    const auto gaps = static_cast<net::Clock::rep>(job.tokens > 1 ? job.tokens - 1 : 0);
    const auto done = prefill.done + token_gap(c.request) * gaps;
    while (net::Clock::now() < done)
      if (!co_await c.wait_until(done)) co_return false;
    Reply reply;
    reply.body = whole_answer(job, usage);
    add_transfer_params(reply.body, engine_.options(), job);
    if (!co_await send(c, fault, reply, &guard)) co_return false;
    if (gaps > 0)
      engine_.token_gap(std::chrono::duration<double>(net::Clock::now() - prefill.done).count() /
                        static_cast<double>(gaps));
  }
  engine_.counters.generated_tokens += usage.completion_tokens;
  const bool text = job.kind == Kind::chat || job.kind == Kind::completions || job.kind == Kind::responses ||
                    job.kind == Kind::messages;
  if (text && job.choices == 1 && job.tool_name.empty() && !job.prompts.empty())
    engine_.keep_blocks(slot, job.model, job.prompts.front() + answer_text(job) + "<|im_end|>\n");
  co_return true;
}

/// A decode engine fetches the cache of a room: waits until it was computed.
Task<bool> Server::serve_room(Connection& c) {
  const std::string name(c.request.path().substr(bootstrap_path.size()));
  const auto until = net::Clock::now() + room_patience;
  Rooms::Room* room = rooms_.find(name);
  while ((room == nullptr || !room->computed) && net::Clock::now() < until) {
    if (!co_await c.wait_until(net::Clock::now() + room_poll)) co_return false;
    room = rooms_.find(name);  // the prefill request may be the later one, or be over
  }
  Reply reply;
  if (room != nullptr && room->computed) {
    room->fetched = true;
  } else {
    reply = error_reply(404, "nobody is in this room");
  }
  co_return co_await send(c, Fault{}, reply, nullptr);
}

/// Fetches the cache from the prefill engine. \return 200, the status to answer, or 0: the client left.
Task<int> Server::meet(Connection& c, const Job& job) {
  struct Fetch {
    explicit Fetch(net::io_context& io) : connection(io) {}
    net::FetchConnection connection;
    int status = 0;
    bool done = false;
  };
  const auto fetch = std::make_shared<Fetch>(io_);
  net::FetchRequest request;
  request.ip = job.bootstrap_host;
  request.port = engine_.options().bootstrap_port;
  request.target = std::string(bootstrap_path) + job.room;
  request.timeout = 2 * room_patience;
  const auto run = [](std::shared_ptr<Fetch> shared, net::FetchRequest what) -> Task<> {
    const auto got = co_await shared->connection.get(std::move(what));
    shared->status = got && got->status == 200 ? 200 : 500;
    shared->done = true;
  };
  tasks_.spawn("meet", run(fetch, std::move(request)));
  while (!fetch->done) {
    if (!co_await c.wait_until(net::Clock::now() + room_poll)) {
      fetch->connection.cancel();
      co_return 0;
    }
  }
  co_return fetch->status;
}

Task<bool> Server::stream(Connection& c, const Fault& fault, const Job& job, const Usage& usage,
                          net::Clock::time_point start, RequestGuard& guard) {
  Sender sender(c, fault, engine_.name(), job.tokens + 1);
  const auto writer = make_event_writer(job, usage);
  const auto gap = token_gap(c.request);
  std::string event;
  writer->open(event);
  bool ok = co_await sender.head(200, "text/event-stream; charset=utf-8", "cache-control: no-cache\r\n", std::nullopt);
  for (std::size_t i = 0; ok && i < job.tokens; ++i) {
    const auto due = start + gap * static_cast<net::Clock::rep>(i);
    if (net::Clock::now() < due) {
      ok = co_await sender.flush();
      while (ok && net::Clock::now() < due) ok = co_await c.wait_until(due);
      if (!ok) break;
    }
    if (i > 0 && gap.count() > 0) engine_.token_gap(std::chrono::duration<double>(gap).count());
    writer->token(event, i);
    ok = co_await sender.piece(event);
    event.clear();
  }
  if (ok) {
    writer->close(event);
    ok = co_await sender.piece(event) && co_await sender.finish();
  }
  guard.done(sender);
  co_return ok;
}

}  // namespace

int run(Options options) {
  std::signal(SIGPIPE, SIG_IGN);
  net::io_context io(1);
  Server server(io, std::move(options));
  if (!server.listen()) return 1;
  server.start();
  io.run();
  return 0;
}

}  // namespace warmroute::mock
