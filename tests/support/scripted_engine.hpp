#pragma once
// An engine on 127.0.0.1 (or ::1) whose answers a test scripts byte by byte. Runs on the test's io_context.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "net/task.hpp"

namespace warmroute::test {

inline std::string http_answer(int status, const std::string& body, const std::string& headers = "") {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         headers + "\r\n" + body;
}

/// Destroy after the io_context has run its last handler, or keep both to the end of the test.
class ScriptedEngine {
 public:
  struct Reply {
    std::string bytes;
    bool close = false;  ///< after the bytes
    bool hang = false;   ///< after the bytes: nothing more, until the client closes
  };
  using Script = std::function<Reply(const std::string& path, int connection)>;

  ScriptedEngine(net::io_context& io, Script script, const char* address = "127.0.0.1")
      : state_(std::make_shared<State>(io, std::move(script))) {
    const boost::asio::ip::tcp::endpoint endpoint(boost::asio::ip::make_address(address), 0);
    state_->acceptor.open(endpoint.protocol());
    state_->acceptor.bind(endpoint);
    state_->acceptor.listen();
    state_->port = state_->acceptor.local_endpoint().port();
    spawn(io, accept(state_));
  }
  ScriptedEngine(const ScriptedEngine&) = delete;
  ScriptedEngine& operator=(const ScriptedEngine&) = delete;
  ~ScriptedEngine() { stop(); }

  [[nodiscard]] std::uint16_t port() const { return state_->port; }
  [[nodiscard]] const std::vector<std::string>& requests() const { return state_->requests; }
  [[nodiscard]] std::size_t count(const std::string& path) const {
    std::size_t found = 0;
    for (const auto& head : state_->requests) found += head.starts_with("GET " + path + " ") ? 1U : 0U;
    return found;
  }
  [[nodiscard]] int connections() const { return state_->connections; }
  [[nodiscard]] int open() const { return static_cast<int>(state_->sockets.size()); }
  /// Closes the listener and every connection: later connects are refused.
  void stop() {
    state_->acceptor.close();
    for (auto& socket : state_->sockets) socket.close();
  }
  /// Closes the connections that are open now, as an engine does with idle ones.
  void drop_connections() {
    for (auto& socket : state_->sockets) socket.close();
  }

 private:
  struct State {
    State(net::io_context& io, Script scripted) : acceptor(io.get_executor()), script(std::move(scripted)) {}
    net::Acceptor acceptor;
    Script script;
    std::list<net::Socket> sockets;
    std::vector<std::string> requests;
    std::uint16_t port = 0;
    int connections = 0;
  };

  static void spawn(net::io_context& io, net::Task<> task) {
    boost::asio::co_spawn(io.get_executor(), std::move(task), [](const std::exception_ptr& failure) {
      if (failure) std::rethrow_exception(failure);
    });
  }
  static net::Task<> accept(std::shared_ptr<State> state) {
    for (;;) {
      auto [code, socket] = co_await state->acceptor.async_accept(net::as_result);
      if (code) co_return;
      ++state->connections;
      auto executor = state->acceptor.get_executor();
      const auto place = state->sockets.emplace(state->sockets.end(), std::move(socket));
      boost::asio::co_spawn(executor, serve(state, place, state->connections), [state, place](const auto& failure) {
        state->sockets.erase(place);
        if (failure) std::rethrow_exception(failure);
      });
    }
  }
  static net::Task<> serve(std::shared_ptr<State> state, std::list<net::Socket>::iterator place, int number) {
    std::string buffer;
    for (;;) {
      auto [code, size] = co_await boost::asio::async_read_until(*place, boost::asio::dynamic_buffer(buffer),
                                                                 "\r\n\r\n", net::as_result);
      if (code) co_return;
      const std::string head = buffer.substr(0, size);
      buffer.erase(0, size);
      state->requests.push_back(head);
      const auto start = head.find(' ') + 1;
      const Reply reply = state->script(head.substr(start, head.find(' ', start) - start), number);
      auto [write_code, written] =
          co_await boost::asio::async_write(*place, boost::asio::buffer(reply.bytes), net::as_result);
      if (reply.hang) {
        char byte = 0;
        (void)co_await place->async_read_some(boost::asio::buffer(&byte, 1), net::as_result);
      }
      if (write_code || reply.close || reply.hang) co_return;
    }
  }

  std::shared_ptr<State> state_;  // shared with the coroutines
};

}  // namespace warmroute::test
