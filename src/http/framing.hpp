#pragma once
// The verdicts that Beast's parser leaves open (decisions 6): every ambiguity about where a message ends is an error.

#include "http/head.hpp"
#include "warmroute/result.hpp"

namespace warmroute::http {

/// Sets head.framing, or says why the message must be refused. Errors: bad_framing (400), unknown_coding (501).
[[nodiscard]] Result<void> check_framing(Head& head, bool is_request, bool answers_head);

}  // namespace warmroute::http
