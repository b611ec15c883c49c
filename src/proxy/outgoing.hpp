#pragma once
// Step 10: the request as engines get it: the forwarded head and the client's bytes, spliced where that is due.

#include <string>
#include <string_view>
#include <vector>

#include "proxy/exchange.hpp"

namespace warmroute::proxy {

/// The same for every pod that is tried. `body` points into the exchange (and its edits), which outlives it.
struct Outgoing {
  std::string head;
  std::vector<std::string_view> body;
};

/// Sets record.upstream_model and exchange.edits on the way.
[[nodiscard]] Outgoing prepare(Exchange& exchange, const route::Match& match);

/// The two halves of it, for requests that are changed in more ways. Appends the edits that rename the model.
void rename_model(Exchange& exchange, const route::Match& match, std::vector<http::Edit>& edits);
/// `edits` are those of the readable body, are sorted, and outlive the result.
[[nodiscard]] Outgoing compose(Exchange& exchange, std::vector<http::Edit>& edits);

}  // namespace warmroute::proxy
