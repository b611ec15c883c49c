#pragma once
// Step 8, the part that may wait: a reserved pod or pair for the request, or why there is none. Previous step:
// proxy/forward.cpp or proxy/pd_forward.cpp, next: proxy/pick.cpp or proxy/pd_pick.cpp.

#include <optional>
#include <string>

#include "openai/error_body.hpp"
#include "proxy/exchange.hpp"
#include "proxy/wait_queue.hpp"

namespace warmroute::proxy {

/// Looks for what one request needs, and reserves it.
class Search {
 public:
  enum class Found : std::uint8_t {
    reserved,
    busy,  ///< pods are at their in-flight limit: it may help to wait
    none
  };
  /// \param as_of of a request that waits in line (WaitQueues::Place::as_of()).
  virtual Found look(const model::ServerEntry& server, std::optional<net::Clock::time_point> as_of) = 0;
  /// After `none`: what the client is told.
  [[nodiscard]] virtual std::string why() const = 0;

 protected:
  ~Search() = default;
};

struct Admission {
  bool admitted = false;  ///< the search has reserved; false: refused, or the client left
  openai::ErrorKind refusal = openai::ErrorKind::all_filtered;
  std::string message;
  int retry_after_seconds = 0;  ///< 0: the default of the refusal
};

/// Searches; where pods are only busy, waits in the queue of the server, while `awaited` points to the place there:
/// interrupt() it when the client leaves. Waiting moves match.server to the newest table.
net::Task<Admission> admit(
    Exchange& exchange, route::Match& match, Search& search,
    WaitQueues::Place*& awaited);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
