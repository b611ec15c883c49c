// The stand-in engine of the benchmark: bench-engine COUNT [PORT]
//
// Listens on COUNT addresses, 127.0.0.2 and up, all on one port (0: any), and prints the port. Every request is
// answered at once: a fixed chat completion of 0.7 KB, or, when the body holds "bench-EVENTS-MICROSECONDS" (where
// clients put an end user's name), a stream of EVENTS events, one each MICROSECONDS, each stream with its own phase. It
// is one thread and looks at as little as it can, so that it never is what limits a run.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

struct Stream {
  int left = 0;
  microseconds every{0};
  bool usage = false;
};

struct Connection {
  std::uint32_t life = 0;  // of the descriptor: a timer of an earlier connection must not write into this one
  bool open = false;
  bool waits_for_room = false;
  std::string in;
  std::string out;
  Stream stream;
};

struct Timer {
  Clock::time_point at;
  int fd;
  std::uint32_t life;
  bool operator>(const Timer& other) const noexcept { return at > other.at; }
};

std::string chunk(std::string_view data) {
  std::array<char, 16> size{};
  const auto end = std::to_chars(size.data(), size.data() + size.size(), data.size(), 16).ptr;
  return std::string(size.data(), end).append("\r\n").append(data).append("\r\n");
}

std::string answer(std::string_view type, std::string_view body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

std::string event(std::string_view rest) {
  return R"(data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m",)" + std::string(rest) + "}\n\n";
}

constexpr std::string_view order = " bench-";
constexpr std::size_t ends = 1024;
constexpr std::string_view counts = R"("usage":{"prompt_tokens":500,"completion_tokens":100,"total_tokens":600})";
const std::string completion = answer(
    "application/json",
    R"({"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":")" +
        std::string(400, 'x') + R"("},"finish_reason":"stop"}],)" + std::string(counts) + "}");
const std::string stream_head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
const std::string token_chunk =
    chunk(event(R"("choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}])"));
const std::string usage_chunk = chunk(event(R"("choices":[],)" + std::string(counts)));
const std::string end_chunks = chunk("data: [DONE]\n\n") + "0\r\n\r\n";

class Engine {
 public:
  int listen_on(int count, int port);
  [[noreturn]] void run();

 private:
  void accept_all(int listener);
  void readable(int fd);
  bool serve_one(int fd, Connection& connection);
  void start_stream(int fd, Connection& connection, std::string_view parameters, bool usage);
  void tick(const Timer& timer);
  void send(int fd, Connection& connection, std::string_view bytes);
  void flush(int fd, Connection& connection);
  void close(int fd, Connection& connection);
  [[nodiscard]] std::string metrics() const;

  int epoll_ = epoll_create1(EPOLL_CLOEXEC);
  std::vector<bool> listener_;
  std::vector<Connection> connections_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  std::vector<char> buffer_ = std::vector<char>(256 * 1024);
  std::uint32_t random_ = 12345;
  int running_ = 0;
};

int Engine::listen_on(int count, int port) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  connections_.resize(limit.rlim_cur);
  listener_.resize(limit.rlim_cur);
  for (int i = 0; i < count; ++i) {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1U + static_cast<std::uint32_t>(i));
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 || listen(fd, 4096) != 0) {
      std::perror("bench-engine: listen");
      std::exit(1);
    }
    socklen_t size = sizeof address;
    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    port = ntohs(address.sin_port);
    listener_[static_cast<std::size_t>(fd)] = true;
    epoll_event ready{EPOLLIN, {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &ready);
  }
  return port;
}

void Engine::run() {
  std::array<epoll_event, 256> events{};
  for (;;) {
    timespec wait{1, 0};
    if (!timers_.empty()) {
      const auto left = std::max(timers_.top().at - Clock::now(), Clock::duration::zero());
      wait.tv_sec = std::chrono::duration_cast<std::chrono::seconds>(left).count();
      wait.tv_nsec = (left % std::chrono::seconds(1)).count();
    }
    const int count = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &wait, nullptr);
    for (int i = 0; i < count; ++i) {
      const auto& ready = events[static_cast<std::size_t>(i)];
      const int fd = ready.data.fd;
      if (listener_[static_cast<std::size_t>(fd)]) {
        accept_all(fd);
        continue;
      }
      auto& connection = connections_[static_cast<std::size_t>(fd)];
      if ((ready.events & EPOLLOUT) != 0 && connection.open) flush(fd, connection);
      if ((ready.events & ~EPOLLOUT) != 0 && connection.open) readable(fd);
    }
    const auto now = Clock::now();
    while (!timers_.empty() && timers_.top().at <= now) {
      const auto timer = timers_.top();
      timers_.pop();
      tick(timer);
    }
  }
}

void Engine::accept_all(int listener) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    auto& connection = connections_[static_cast<std::size_t>(fd)];
    const auto life = connection.life + 1;
    connection = {};
    connection.life = life;
    connection.open = true;
    epoll_event ready{EPOLLIN, {.fd = fd}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &ready);
  }
}

void Engine::readable(int fd) {
  auto& connection = connections_[static_cast<std::size_t>(fd)];
  const auto got = recv(fd, buffer_.data(), buffer_.size(), 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) {
    close(fd, connection);
    return;
  }
  connection.in.append(buffer_.data(), static_cast<std::size_t>(got));
  while (connection.open && serve_one(fd, connection)) {
  }
}

bool Engine::serve_one(int fd, Connection& connection) {
  const std::string_view in = connection.in;
  const auto head_end = in.find("\r\n\r\n");
  if (head_end == std::string_view::npos) return false;
  const auto head = in.substr(0, head_end + 2);
  std::size_t length = 0;
  for (const std::string_view name : {"\r\nContent-Length:", "\r\ncontent-length:"}) {
    auto at = head.find(name);
    if (at == std::string_view::npos) continue;
    at = head.find_first_not_of(' ', at + name.size());
    std::from_chars(head.data() + at, head.data() + head.size(), length);
  }
  const auto whole = head_end + 4 + length;
  if (in.size() < whole) return false;
  if (head.starts_with("GET /metrics")) {
    send(fd, connection, metrics());
  } else if (head.starts_with("GET ")) {
    send(fd, connection, answer("application/json", R"({"object":"list","data":[{"id":"m","object":"model"}]})"));
  } else {
    // Both ends of the body are enough: the last message, and members that a router adds.
    const auto body = in.substr(head_end + 4, length);
    const auto front = body.substr(0, ends);
    const auto back = body.substr(body.size() - std::min(ends, body.size()));
    if (const auto at = back.find(order); at != std::string_view::npos) {
      const bool usage = front.find("\"include_usage\"") != std::string_view::npos ||
                         back.find("\"include_usage\"") != std::string_view::npos;
      start_stream(fd, connection, back.substr(at + order.size()), usage);
    } else {
      send(fd, connection, completion);
    }
  }
  if (!connection.open) return false;
  connection.in.erase(0, whole);
  if (connection.in.empty() && connection.in.capacity() > 4096) std::string().swap(connection.in);
  return !connection.in.empty();
}

void Engine::start_stream(int fd, Connection& connection, std::string_view parameters, bool usage) {
  auto& stream = connection.stream;
  long every = 0;
  const auto* const end = parameters.data() + parameters.size();
  const auto events = std::from_chars(parameters.data(), end, stream.left);
  if (events.ptr != end) std::from_chars(events.ptr + 1, end, every);
  stream.every = microseconds(every);
  stream.usage = usage;
  ++running_;
  send(fd, connection, stream_head);
  random_ = random_ * 1664525U + 1013904223U;
  const auto phase = every == 0 ? 0 : static_cast<long>(random_ >> 8U) % every;
  timers_.push({Clock::now() + microseconds(phase), fd, connection.life});
}

void Engine::tick(const Timer& timer) {
  auto& connection = connections_[static_cast<std::size_t>(timer.fd)];
  if (connection.life != timer.life || !connection.open) return;
  auto& stream = connection.stream;
  if (stream.left-- > 0) {
    timers_.push({timer.at + stream.every, timer.fd, timer.life});
    send(timer.fd, connection, token_chunk);
    return;
  }
  --running_;
  send(timer.fd, connection, stream.usage ? usage_chunk + end_chunks : end_chunks);
}

void Engine::send(int fd, Connection& connection, std::string_view bytes) {
  if (!connection.out.empty()) {
    connection.out += bytes;
    return;
  }
  const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) {
    close(fd, connection);
    return;
  }
  const auto done = static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
  if (done == bytes.size()) return;
  connection.out.assign(bytes.substr(done));
  epoll_event ready{EPOLLIN | EPOLLOUT, {.fd = fd}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &ready);
  connection.waits_for_room = true;
}

void Engine::flush(int fd, Connection& connection) {
  const std::string rest = std::move(connection.out);
  connection.out.clear();
  if (!rest.empty()) send(fd, connection, rest);
  if (!connection.open || !connection.out.empty() || !connection.waits_for_room) return;
  epoll_event ready{EPOLLIN, {.fd = fd}};
  epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &ready);
  connection.waits_for_room = false;
}

void Engine::close(int fd, Connection& connection) {
  if (connection.stream.left > 0) --running_;
  ::close(fd);
  const auto life = connection.life;
  connection = {};
  connection.life = life;
}

std::string Engine::metrics() const {
  const auto line = [](std::string_view name, std::string_view value) {
    return "# TYPE vllm:" + std::string(name) + " gauge\nvllm:" + std::string(name) + "{model_name=\"m\"} " +
           std::string(value) + "\n";
  };
  return answer("text/plain", line("num_requests_running", std::to_string(running_)) +
                                  line("num_requests_waiting", "0") + line("kv_cache_usage_perc", "0.1"));
}

}  // namespace

int main(int argc, char** argv) {
  Engine engine;
  const int count = argc > 1 ? std::atoi(argv[1]) : 4;
  std::printf("%d\n", engine.listen_on(count, argc > 2 ? std::atoi(argv[2]) : 0));
  std::fflush(stdout);
  engine.run();
}
