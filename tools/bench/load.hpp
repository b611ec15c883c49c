#pragma once
// Drives a proxy over many connections from one thread and counts what comes back.

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "answer_reader.hpp"
#include "conversations.hpp"
#include "proc_stat.hpp"

namespace bench {

struct Plan {
  std::string host = "127.0.0.1";
  int port = 0;
  int connections = 32;
  double warm_up_s = 1.0;
  double seconds = 5.0;
  double rate = 0.0;       // requests per second, whatever the answers do; 0: the next one when the last is answered
  double dial_rate = 0.0;  // new connections per second; 0: all at once
  bool once = false;       // one request per connection, which then stays open without another
  pid_t pid = 0;           // whose CPU time is read at both ends of the window
  Shape shape;
};

struct Results {
  std::uint64_t requests = 0;
  std::uint64_t events = 0;
  std::uint64_t failed = 0;      // another status than 200, or the connection broke
  std::uint64_t unanswered = 0;  // at the end of the window, of those that were due in it
  double seconds = 0.0;
  double cpu_s = 0.0;
  std::vector<std::uint32_t>
      latency_us;  // from when the request was due to its last byte; per event: from the one before
  std::string first_failure;
};

class Load {
 public:
  explicit Load(const Plan& plan);
  ~Load();
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  /// Opens the connections and warms up; returns once every stream (or connection) has had its first answer.
  void prepare();
  /// The measured window.
  Results measure();
  /// Keeps streams flowing and connections open until standard input ends. Returns what failed since the start.
  Results hold();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int fd = -1;
    bool busy = false;
    bool dialling = false;
    bool done = false;  // has its one answer
    bool seen = false;  // had an event or answer
    bool waits_for_room = false;
    Request request;
    std::size_t sent = 0;
    AnswerReader reader;
    Clock::time_point due;
    Clock::time_point last_event;
  };

  void turn(Clock::time_point until);
  void dial(Connection& connection);
  void start(Connection& connection, Clock::time_point due);
  void write(Connection& connection);
  void read(Connection& connection);
  void answered(Connection& connection, Clock::time_point now);
  void fail(Connection& connection, const std::string& why);
  void become_idle(Connection& connection);
  void send_due(Clock::time_point now);
  void watch(Connection& connection, bool room);

  Plan plan_;
  Conversations conversations_;
  int epoll_;
  std::unique_ptr<Connection[]> connections_;
  std::vector<Connection*> idle_;
  std::deque<Clock::time_point> waiting_;  // due, but no connection was free
  Clock::time_point next_due_;
  Clock::time_point next_dial_;
  int dialled_ = 0;
  int seen_ = 0;
  bool running_ = false;  // requests are being sent
  bool measuring_ = false;
  Clock::time_point window_start_;
  std::vector<char> buffer_ = std::vector<char>(256 * 1024);
  std::vector<pid_t> pids_;
  Results results_;
};

}  // namespace bench
