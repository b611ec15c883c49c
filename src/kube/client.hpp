#pragma once
// The API server's client: requests and watches over HTTP/1.1 and TLS, with the identity of the configuration. On the
// control thread's io_context; every wait has a limit, and close() ends all of them.
//
//   kube::Client client(control, config, {.qps = 5, .burst = 10});
//   auto answer = co_await client.request(std::move(request));
//   if (!answer) ...                  // no answer: connect, TLS, time, credentials; answer.error().detail says which
//   else if (!answer->ok()) ...       // answer->status, ->reason ("Conflict"), ->message, ->retry_after

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "kube/authenticator.hpp"
#include "kube/config.hpp"
#include "net/task.hpp"
#include "warmroute/result.hpp"

namespace warmroute::kube {

struct ClientOptions {
  double qps = 0;  ///< requests a second; 0: 5. Watches do not count: their own backoff limits them.
  int burst = 0;   ///< 0: 10
  AuthTiming auth;
};

struct Request {
  Request() = default;
  Request(std::string verb, std::string target) : method(std::move(verb)), path(std::move(target)) {}
  std::string method = "GET";
  std::string path;          ///< from the server's root, query included, percent-encoded
  std::string content_type;  ///< of the body, e.g. application/merge-patch+json; empty: application/json
  std::string body;
  std::chrono::milliseconds timeout{
      30'000};  ///< of the exchange; of these 10 s to connect. Waiting for a turn (qps) is not counted.
  std::size_t body_limit_bytes = 64U << 20U;  ///< of the answer; Errc::too_large
  bool urgent = false;  ///< takes its turn at once: for what loses its sense behind hundreds of lists (a Lease)
};

struct Response {
  int status = 0;
  std::string body;
  std::string reason, message;  ///< of the Status object that a refusal carries; may be empty
  std::optional<std::chrono::seconds> retry_after;
  [[nodiscard]] bool ok() const noexcept { return status / 100 == 2; }
  /// "403 Forbidden: pods is forbidden: ...", for logs.
  [[nodiscard]] std::string text() const;
};

/// The lines of a watch. Destruction ends it.
class WatchStream {
 public:
  struct Impl;
  explicit WatchStream(std::unique_ptr<Impl> impl);
  ~WatchStream();
  WatchStream(const WatchStream&) = delete;
  WatchStream& operator=(const WatchStream&) = delete;
  /// The next whole line, without its end. Errc::closed: the stream ended (what stood behind the last line is lost);
  /// Errc::timeout: nothing came for the watch's `silence`; Errc::too_large; Errc::cancelled after close().
  net::Task<Result<std::string>> line();
  void close();

 private:
  std::unique_ptr<Impl> impl_;
};

struct WatchRequest {
  WatchRequest() = default;
  std::string path;                           ///< with watch=1 in its query
  std::chrono::milliseconds answer{30'000};   ///< until the head
  std::chrono::milliseconds silence{90'000};  ///< between two pieces of the stream
  std::size_t line_limit_bytes = 8U << 20U;
};

/// `stream` is null when the API server refused; then `response` says why.
struct Watch {
  Response response;
  std::unique_ptr<WatchStream> stream;
};

class Client {
 public:
  Client(net::io_context& control, Config config, ClientOptions options = {});
  ~Client();  ///< close()
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// After a 401 the credentials are read again; when they changed, the request is sent once more.
  net::Task<Result<Response>> request(Request request);
  net::Task<Result<Watch>> watch(WatchRequest request);
  [[nodiscard]] const Config& config() const noexcept;
  /// Ends everything under way with Errc::cancelled, and refuses more.
  void close();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Percent-encodes what may not stand in a query value.
[[nodiscard]] std::string query_escaped(std::string_view text);

}  // namespace warmroute::kube
