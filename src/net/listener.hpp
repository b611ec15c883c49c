#pragma once
// Accepts on the control thread and hands each descriptor to the worker with the fewest connections (count-balanced:
// LLM clients are few and long-lived, so the kernel's hash would leave workers idle).

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "net/task_group.hpp"
#include "net/worker.hpp"
#include "warmroute/result.hpp"

namespace warmroute::net {

class Listener {
 public:
  /// Called on the worker with a connected, non-blocking descriptor that it owns. `over_limit`: the limit was reached,
  /// and this is one of the few beyond it that health probes and a refusal in the client's own protocol are left room
  /// for.
  using OnConnection = std::function<void(Worker&, Socket, bool over_limit)>;
  static constexpr std::size_t spare_connections = 64;  ///< beyond the limit; what comes after them is closed

  struct Options {
    std::string address;  ///< empty: all, IPv6 dual stack, IPv4 alone where IPv6 is missing
    std::uint16_t port = 0;
    std::size_t max_connections = 0;  ///< of all workers together; 0: none
    bool tls = false;                 ///< clients expect TLS: no clear text to them
  };

  Listener(io_context& control, std::vector<Worker*> workers, OnConnection on_connection);
  ~Listener();
  /// Error detail: the system's message. Value: the port.
  Result<std::uint16_t> listen(const Options& options);
  /// Lets handshakes that are under way complete and begins no new one: a SYN is dropped, and its sender hears of the
  /// closed port when he asks again. To be called a moment before stop().
  void refuse_new() noexcept;
  /// Hands over what is still in the accept queue, and closes.
  void stop();
  /// Connections that came when the limit was reached.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  Task<> accept_loop();
  bool accept_waiting(int most);
  void close();
  void hand_over(int descriptor);
  void refuse(int descriptor) const;

  std::vector<Worker*> workers_;
  OnConnection on_connection_;
  Options options_;
  Acceptor acceptor_;
  Timer pause_;
  std::atomic<std::uint64_t> refused_{0};
  std::size_t next_ = 0;
  bool stopped_ = false;
  TaskGroup tasks_;
};

/// Binds and listens; address empty: all addresses.
Result<std::uint16_t> open_acceptor(Acceptor& acceptor, const std::string& address, std::uint16_t port);

}  // namespace warmroute::net
