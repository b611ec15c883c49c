#pragma once
// Answers that the router makes itself: errors, health, the model list, metrics on the router port.

#include <string>
#include <string_view>

#include "openai/error_body.hpp"
#include "proxy/exchange.hpp"

namespace warmroute::proxy {

struct LocalAnswer {
  int status = 200;
  std::string_view content_type = "application/json; charset=utf-8";
  std::string_view body;
  int retry_after_seconds = 0;
  std::string_view location;  ///< of a redirect; empty: none
};

/// Writes an answer for `exchange`; honours HEAD, Connection and the state of the body. Sets record.status.
net::Task<> answer(Exchange& exchange,
                   LocalAnswer what);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

/// An error of decision 3.1. Fills status and error fields of the record.
/// \param retry_after_seconds of 503 and 429; 0: 1 second.
net::Task<> answer_error(
    Exchange& exchange, openai::ErrorKind kind, std::string message,
    int retry_after_seconds = 0);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

/// Before there is a request: the head could not be read.
net::Task<> answer_refusal(Session& session,
                           Error error);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

/// Paths that are not inference: true when the request was answered here.
net::Task<bool> answer_locally(Exchange& exchange);  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)

}  // namespace warmroute::proxy
