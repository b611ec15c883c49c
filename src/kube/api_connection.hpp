#pragma once
// One HTTP/1.1 connection to the API server: opened, one exchange after the other, its deadline and its end. Control
// thread; one coroutine at a time. What goes wrong is an Error whose text has no token in it.

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/connection.hpp"
#include "warmroute/result.hpp"

namespace warmroute::kube {

/// The head of an answer, as far as we look at it.
struct AnswerHead {
  int status = 0;
  std::optional<std::chrono::seconds> retry_after;
  bool gzip = false;  ///< a coding that we did not ask for
};

class ApiConnection {
 public:
  struct Target {
    std::string host;  ///< name or address
    std::uint16_t port = 0;
    std::string tls_name;                       ///< for SNI and the check of the certificate
    std::shared_ptr<const net::ClientTls> tls;  ///< null: clear text
  };

  explicit ApiConnection(net::io_context& io);
  ~ApiConnection();  ///< closes; a coroutine that waits on it ends with Errc::cancelled
  ApiConnection(const ApiConnection&) = delete;
  ApiConnection& operator=(const ApiConnection&) = delete;

  /// Everything that waits ends with Errc::timeout then; time_point::max() for never. Replaces the one before.
  void set_deadline(net::Clock::time_point at);
  /// Resolves, connects to the first address that answers, and shakes hands.
  net::Task<Result<void>> open(Target target);
  net::Task<Result<void>> send(std::string text);
  /// The next final answer's head.
  net::Task<Result<AnswerHead>> read_head();
  /// Appends what comes next of the body; false when the body is complete.
  net::Task<Result<bool>> read_body(std::string& out);
  /// True between two exchanges, when another may follow and the peer has not closed.
  [[nodiscard]] bool reusable();
  /// No byte of the answer has come yet, and the peer ended the connection: it may have been idle for too long.
  [[nodiscard]] bool closed_while_idle() const;
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;  ///< shared with the coroutine under way and the deadline's handler
};

}  // namespace warmroute::kube
