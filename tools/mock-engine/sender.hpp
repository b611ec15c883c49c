#pragma once
// Writes one answer in pieces and carries out the faults on the way.

#include <optional>
#include <string>
#include <string_view>

#include "connection.hpp"
#include "faults.hpp"

namespace warmroute::mock {

class Sender {
 public:
  /// `pieces`: how many piece() calls will follow; "mid" is before the one after half of them.
  Sender(Connection& connection, const Fault& fault, std::string_view engine_name, std::size_t pieces)
      : connection_(connection), fault_(fault), engine_name_(engine_name), middle_((pieces + 1) / 2) {}

  /// Body length known: Content-Length, else chunked (or until close, towards HTTP/1.0). Like all of these: false when
  /// the connection is over, by the client or by a fault.
  net::Task<bool> head(int status, std::string_view type, std::string_view extra_headers,
                       std::optional<std::size_t> length);
  /// Only gathers until flush() unless a fault asks for more.
  net::Task<bool> piece(std::string_view data);
  net::Task<bool> flush();
  net::Task<bool> finish();
  /// The client received everything that a healthy engine sends.
  [[nodiscard]] bool complete() const noexcept { return complete_; }
  /// A fault ended the connection, not the client.
  [[nodiscard]] bool broken_by_fault() const noexcept { return broken_; }

 private:
  net::Task<bool> fault_point(Where where);
  void frame(std::string_view data);

  Connection& connection_;
  const Fault& fault_;
  std::string_view engine_name_;
  std::size_t middle_;
  std::size_t index_ = 0;
  std::uint64_t body_bytes_ = 0;
  bool chunked_ = false;
  bool complete_ = false;
  bool broken_ = false;
  std::string out_;
};

}  // namespace warmroute::mock
