#pragma once
// Errors as values. An Error says who caused it and what may be tried next; it is set where the failure is
// seen and read in one place (proxy/attempt.cpp on the request path, main at start).

#include <boost/system/result.hpp>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

namespace warmroute {

/// Who caused a failure. Also the `error_origin` of the access log where it is shown.
enum class Source : std::uint8_t { client, engine, internal };

/// What may be tried after a failure, before the first byte reached the client.
enum class Retry : std::uint8_t {
  never,
  fresh_connection,  ///< a pooled connection had already been closed: same pod, new connection
  next_pod
};

enum class Errc : std::uint16_t {
  bad_framing,
  bad_version,
  unknown_coding,
  head_too_large,
  too_large,
  bad_json,
  bad_value,
  timeout,
  cancelled,
  closed,
  reset,
  refused,
  tls,
  no_pod,
  unknown_plugin,
  io,
  bug
};

struct Error {
  Errc code = Errc::bug;
  Source source = Source::internal;
  Retry retry = Retry::never;
  std::string detail;  ///< for logs and error bodies; never prompt text, keys or tokens
};

/// Called by boost::system::result when value() is taken of an error: a bug in the caller.
[[noreturn]] inline void throw_exception_from_error(const Error& error, const boost::source_location&) {
  throw std::logic_error("unchecked Result: " + error.detail);
}

template <class T>
using Result = boost::system::result<T, Error>;

/// Shorthand for configuration and value errors, whose detail is the whole message.
[[nodiscard]] inline Error value_error(std::string detail) {
  return Error{Errc::bad_value, Source::internal, Retry::never, std::move(detail)};
}

}  // namespace warmroute
