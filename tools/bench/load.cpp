#include "load.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace bench {
namespace {

using std::chrono::duration;
using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr auto give_up_after = std::chrono::seconds(60);

template <class Duration>
std::uint32_t to_us(Duration value) {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, duration_cast<microseconds>(value).count()));
}

}  // namespace

Load::Load(const Plan& plan)
    : plan_(plan),
      conversations_(plan.shape, plan.port),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      connections_(new Connection[static_cast<std::size_t>(plan.connections)]) {
  if (plan.pid != 0) pids_ = process_tree(plan.pid);
}

Load::~Load() {
  for (int i = 0; i < plan_.connections; ++i) {
    if (connections_[static_cast<std::size_t>(i)].fd >= 0) ::close(connections_[static_cast<std::size_t>(i)].fd);
  }
  ::close(epoll_);
}

void Load::watch(Connection& connection, bool room) {
  epoll_event wanted{};
  wanted.events = EPOLLIN | (room ? EPOLLOUT : 0U);
  wanted.data.ptr = &connection;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd, &wanted);
  connection.waits_for_room = room;
}

void Load::dial(Connection& connection) {
  connection.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(plan_.port));
  inet_pton(AF_INET, plan_.host.c_str(), &address.sin_addr);
  if (connection.fd < 0 || (connect(connection.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
                            errno != EINPROGRESS)) {
    fail(connection, std::string("connect: ") + std::strerror(errno));
    return;
  }
  epoll_event wanted{};
  wanted.events = EPOLLIN | EPOLLOUT;
  wanted.data.ptr = &connection;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, connection.fd, &wanted);
  connection.waits_for_room = true;
  connection.dialling = true;
}

void Load::fail(Connection& connection, const std::string& why) {
  ++results_.failed;
  if (results_.first_failure.empty()) results_.first_failure = why;
  if (connection.fd >= 0) ::close(connection.fd);
  const bool seen = connection.seen;
  connection = Connection();
  connection.seen = seen;
  next_dial_ = std::max(next_dial_, Clock::now() + milliseconds(10));  // a proxy that refuses is not hammered
}

void Load::become_idle(Connection& connection) {
  connection.busy = false;
  if (connection.done || !running_) {
    idle_.push_back(&connection);
  } else if (plan_.rate <= 0) {
    start(connection, Clock::now());
  } else if (!waiting_.empty()) {
    const auto due = waiting_.front();
    waiting_.pop_front();
    start(connection, due);
  } else {
    idle_.push_back(&connection);
  }
}

void Load::start(Connection& connection, Clock::time_point due) {
  connection.busy = true;
  connection.request = conversations_.next();
  connection.sent = 0;
  connection.reader.reset();
  connection.due = due;
  connection.last_event = {};
  write(connection);
}

void Load::write(Connection& connection) {
  const auto size = connection.request.size();
  while (connection.sent < size) {
    std::array<iovec, 5> pieces{};
    std::size_t count = 0;
    std::size_t skip = connection.sent;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      auto piece = connection.request.piece(i);
      const auto skipped = std::min(skip, piece.size());
      skip -= skipped;
      piece.remove_prefix(skipped);
      if (!piece.empty()) pieces[count++] = {const_cast<char*>(piece.data()), piece.size()};
    }
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = count;
    const auto wrote = sendmsg(connection.fd, &message, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EAGAIN) {
      if (!connection.waits_for_room) watch(connection, true);
      return;
    }
    if (wrote < 0) {
      fail(connection, std::string("write: ") + std::strerror(errno));
      return;
    }
    connection.sent += static_cast<std::size_t>(wrote);
  }
  if (connection.waits_for_room) watch(connection, false);
}

void Load::read(Connection& connection) {
  const auto got = recv(connection.fd, buffer_.data(), buffer_.size(), 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) {
    fail(connection, got == 0 ? "closed by the proxy" : std::string("read: ") + std::strerror(errno));
    return;
  }
  if (!connection.busy) {
    fail(connection, "bytes that nobody asked for");
    return;
  }
  const auto now = Clock::now();
  std::size_t used = 0;
  const auto state = connection.reader.feed({buffer_.data(), static_cast<std::size_t>(got)}, used);
  if (const int events = connection.reader.take_events(); events > 0) {
    if (!connection.seen) ++seen_;
    connection.seen = true;
    if (measuring_) {
      results_.events += static_cast<std::uint64_t>(events);
      if (plan_.shape.events > 0 && connection.last_event >= window_start_) {
        results_.latency_us.push_back(to_us(now - connection.last_event));
        results_.latency_us.insert(results_.latency_us.end(), static_cast<std::size_t>(events - 1), 0);
      }
    }
    connection.last_event = now;
  }
  if (state == AnswerReader::State::broken) {
    fail(connection, "an answer that cannot be read");
  } else if (state == AnswerReader::State::complete) {
    answered(connection, now);
  }
}

void Load::answered(Connection& connection, Clock::time_point now) {
  if (connection.reader.status() != 200) {
    ++results_.failed;
    if (results_.first_failure.empty()) results_.first_failure = "status " + std::to_string(connection.reader.status());
  } else if (measuring_) {
    ++results_.requests;
    if (plan_.shape.events == 0 && connection.due >= window_start_)
      results_.latency_us.push_back(to_us(now - connection.due));
  }
  if (!connection.seen) ++seen_;
  connection.seen = true;
  connection.done = plan_.once;
  if (connection.reader.closes()) {
    ::close(connection.fd);
    const bool done = connection.done;
    connection = Connection();
    connection.seen = true;
    connection.done = done;
    return;
  }
  become_idle(connection);
}

void Load::send_due(Clock::time_point now) {
  if (plan_.rate <= 0 || !running_) return;
  const auto step = duration_cast<Clock::duration>(duration<double>(1.0 / plan_.rate));
  for (; next_due_ <= now; next_due_ += step) {
    while (!idle_.empty() && (idle_.back()->fd < 0 || idle_.back()->busy)) idle_.pop_back();
    if (idle_.empty()) {
      waiting_.push_back(next_due_);
      continue;
    }
    auto& connection = *idle_.back();
    idle_.pop_back();
    start(connection, next_due_);
  }
}

void Load::turn(Clock::time_point until) {
  auto now = Clock::now();
  auto wake = until;
  if (running_ && plan_.rate > 0) wake = std::min(wake, next_due_);
  // Connections that are missing, a few at a time.
  if (now >= next_dial_) {
    const int burst = plan_.dial_rate > 0 ? std::max(1, static_cast<int>(plan_.dial_rate / 100)) : plan_.connections;
    int left = burst;
    for (int i = 0; i < plan_.connections && left > 0; ++i) {
      auto& connection = connections_[static_cast<std::size_t>((dialled_ + i) % plan_.connections)];
      if (connection.fd >= 0) continue;
      dial(connection);
      if (--left == 0) dialled_ = (dialled_ + i + 1) % plan_.connections;
    }
    next_dial_ = now + milliseconds(10);
  }
  wake = std::min(wake, next_dial_);
  std::array<epoll_event, 256> events{};
  const auto left = std::max(wake - now, Clock::duration::zero());
  const timespec wait{static_cast<time_t>(duration_cast<std::chrono::seconds>(left).count()),
                      static_cast<long>((left % std::chrono::seconds(1)).count())};
  const int count = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), &wait, nullptr);
  for (int i = 0; i < count; ++i) {
    const auto& ready = events[static_cast<std::size_t>(i)];
    auto& connection = *static_cast<Connection*>(ready.data.ptr);
    if (connection.dialling && (ready.events & EPOLLOUT) != 0) {
      connection.dialling = false;
      watch(connection, false);
      become_idle(connection);
    } else if ((ready.events & EPOLLOUT) != 0 && connection.busy) {
      write(connection);
    }
    if ((ready.events & ~EPOLLOUT) != 0 && connection.fd >= 0) read(connection);
  }
  send_due(Clock::now());
}

void Load::prepare() {
  running_ = true;
  next_due_ = next_dial_ = Clock::now();
  const auto began = Clock::now();
  const auto wanted = plan_.rate > 0 ? 1 : plan_.connections;
  const auto warm = began + duration_cast<Clock::duration>(duration<double>(plan_.warm_up_s));
  while (seen_ < wanted || Clock::now() < warm) {
    turn(Clock::now() + milliseconds(5));
    if (Clock::now() - began > give_up_after + duration<double>(plan_.warm_up_s)) break;
  }
}

Results Load::measure() {
  results_ = {};
  results_.latency_us.reserve(1U << 20U);
  window_start_ = Clock::now();
  const auto end = window_start_ + duration_cast<Clock::duration>(duration<double>(plan_.seconds));
  const auto cpu = cpu_seconds(pids_);
  measuring_ = true;
  while (Clock::now() < end) turn(end);
  measuring_ = false;
  results_.cpu_s = cpu_seconds(pids_) - cpu;
  const auto now = Clock::now();
  results_.seconds = duration<double>(now - window_start_).count();
  if (plan_.rate > 0) {
    // What is late counts with the time it has waited so far: leaving it out would flatter a proxy that stalls.
    results_.unanswered = waiting_.size();
    for (const auto due : waiting_) results_.latency_us.push_back(to_us(now - due));
    for (int i = 0; i < plan_.connections; ++i) {
      const auto& connection = connections_[static_cast<std::size_t>(i)];
      if (!connection.busy || connection.due < window_start_) continue;
      ++results_.unanswered;
      results_.latency_us.push_back(to_us(now - connection.due));
    }
  }
  return std::move(results_);
}

Results Load::hold() {
  pollfd input{0, POLLIN, 0};
  std::array<char, 64> ignored{};
  for (;;) {
    turn(Clock::now() + milliseconds(5));
    if (poll(&input, 1, 0) > 0 && ::read(0, ignored.data(), ignored.size()) <= 0) return std::move(results_);
  }
}

}  // namespace bench
