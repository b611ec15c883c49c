#pragma once
// Keeps an ObjectSink equal to one list of the API server: a list in pages, then a watch from its version, and again
// where the watch cannot go on. Another list each `relist` beside the watch finds what events did not tell. No fault
// of the API server takes anything out of the sink. Control thread.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kube/client.hpp"
#include "kube/object_cache.hpp"
#include "kube/watch_plan.hpp"
#include "net/task_group.hpp"

namespace warmroute::kube {

struct ReflectorTiming {
  BackoffLimits backoff;
  std::chrono::milliseconds silence{90'000};  ///< a watch says something each minute (bookmarks)
  std::chrono::seconds watch{300};            ///< asked of the server: this to twice this
  std::chrono::milliseconds relist{300'000};  ///< zero: never
  std::chrono::milliseconds answer{30'000};   ///< to a list's page, or until a watch begins
  std::chrono::milliseconds repeat{30'000};   ///< between two log lines about the same failure
};

/// Added up over all reflectors that share them.
struct ReflectorCounters {
  std::uint64_t events = 0;    ///< understood, bookmarks not counted
  std::uint64_t stale = 0;     ///< events and lists that were older than what is known
  std::uint64_t lists = 0;     ///< complete ones
  std::uint64_t failures = 0;  ///< lists and watches that ended in an error
  std::uint64_t repaired = 0;  ///< lists beside a running watch that found something it had not told
};

struct ReflectorSpec {
  std::string name;            ///< for the log: "pods of ns, app=a"
  std::string path;            ///< e.g. /api/v1/namespaces/ns/pods
  std::string label_selector;  ///< empty: all
  int page_limit = 250;
  ReflectorTiming timing;
};

class Reflector {
 public:
  using Changed = std::function<void()>;
  /// \param changed runs after the sink changed, and after its first complete list
  Reflector(net::io_context& control, net::TaskGroup& tasks, std::shared_ptr<Client> client,
            std::shared_ptr<ObjectSink> sink, std::shared_ptr<ReflectorCounters> counters, ReflectorSpec spec,
            Changed changed);
  ~Reflector();  ///< stops; `changed` does not run afterwards
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;
  void start();

  /// A complete list was had once.
  [[nodiscard]] bool synced() const noexcept;
  /// A watch is open now.
  [[nodiscard]] bool connected() const noexcept;
  /// Zero while a watch is open; else since the last moment at which the state was known to be current.
  [[nodiscard]] net::Clock::duration age(net::Clock::time_point now) const noexcept;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace warmroute::kube
