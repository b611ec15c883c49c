#pragma once
// The engine connections of one worker that wait for their next request, newest first. A connection that becomes
// readable while it waits was closed by the engine, or carries bytes that nobody asked for: either way it goes.

#include <list>
#include <map>
#include <memory>

#include "net/connection.hpp"
#include "net/deadline.hpp"
#include "warmroute/pod_view.hpp"

namespace warmroute::upstream {

struct EngineKey {
  PodId pod;
  std::uint16_t port = 0;
  friend auto operator<=>(const EngineKey&, const EngineKey&) = default;
};

class Pool {
 public:
  Pool(net::DeadlineSet& deadlines, std::chrono::milliseconds idle_limit) noexcept;
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Null when there is none that is clean.
  [[nodiscard]] std::unique_ptr<net::Connection> take(const EngineKey& key);
  /// The response was read to its exact end and the engine keeps the connection open.
  void give(const EngineKey& key, std::unique_ptr<net::Connection> connection);
  /// The pod left: its address may belong to somebody else soon.
  void forget(PodId pod);
  void clear();
  [[nodiscard]] std::size_t idle() const noexcept { return idle_count_; }

 private:
  struct Idle;
  using List = std::list<std::unique_ptr<Idle>>;
  void drop(Idle& idle);

  net::DeadlineSet& deadlines_;
  std::chrono::milliseconds idle_limit_;
  std::map<EngineKey, List> by_engine_;
  std::size_t idle_count_ = 0;
};

}  // namespace warmroute::upstream
