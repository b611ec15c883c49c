#pragma once
// Step 8 for prefill/decode: the pairs of one request, and the guards of the first.

#include <optional>
#include <vector>

#include "proxy/exchange.hpp"
#include "proxy/pick.hpp"
#include "schedule/pairs.hpp"

namespace warmroute::proxy {

/// One try, reserved. Without `prefill` the decode pod works alone.
struct Pair {
  Reserved decode;
  std::optional<Reserved> prefill;
};

/// The pairs of a request in the order in which they are tried.
class PairPlan {
 public:
  /// Schedules the pods whose breaker admits requests (all when that leaves no pair, unless one may become free), and
  /// reserves both pods of the first pair; once more when another worker took one meanwhile.
  /// \param may_skip_prefill a decode pod that holds the prompt may work alone.
  /// \param as_of of a request that waits in line.
  PairPlan(Exchange& exchange, const model::ServerEntry& server, bool may_skip_prefill,
           std::optional<net::Clock::time_point> as_of);

  /// Without one: why. `limited`: it may help to wait.
  [[nodiscard]] bool has_pair() const noexcept { return first_.has_value(); }
  [[nodiscard]] const schedule::PairDecision& decision() const noexcept { return decision_; }
  /// The next pair, reserved; empty when there is none.
  [[nodiscard]] std::optional<Pair> next();
  /// The last pair failed because of its prefill pod, which is not asked again for this request. The decode pod keeps
  /// its turn while its group has another.
  void prefill_failed();
  /// The last pair failed because of its decode pod.
  void decode_failed() { ++at_; }

 private:
  void decide();
  /// The first pair from `at_` on, not reserved yet; moves `at_` to it.
  [[nodiscard]] std::optional<Pair> choose();
  /// \param unchanged only while the pod has as many requests in flight as the scheduler saw.
  [[nodiscard]] bool reserve(Reserved& pod, bool unchanged) const;
  [[nodiscard]] bool holds_prompt(std::uint32_t decode) const;

  Exchange& exchange_;
  const model::ServerEntry& server_;
  const bool may_skip_prefill_;
  const std::optional<net::Clock::time_point> as_of_;
  schedule::PairDecision decision_;
  std::optional<Pair> first_;
  bool forced_ = false;                 ///< pods whose breaker is open are tried too
  std::optional<std::uint32_t> asked_;  ///< the last pair's prefill pod
  std::vector<std::uint32_t> failed_;   ///< prefill pods
  std::size_t at_ = 0;                  ///< into decision_.decode
};

}  // namespace warmroute::proxy
