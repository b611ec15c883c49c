#pragma once
// Faults on demand: the value of `x-mock-fault` or of a /control entry, parts separated by `;` or `,`.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace warmroute::mock {

enum class Where : std::uint8_t { never, before_headers, after_headers, mid_stream };

struct Fault {
  int status = 0;                      ///< answer with this status and an error body
  int retry_after_s = -1;              ///< added to a status fault
  Where reset = Where::never;          ///< RST
  Where close = Where::never;          ///< FIN without the rest
  Where stall = Where::never;          ///< no byte more until the client leaves
  std::chrono::milliseconds delay{0};  ///< before the headers
  std::chrono::milliseconds drip{0};   ///< one byte of the answer at a time
  bool bad_chunk = false;              ///< an invalid chunk size in the middle
  std::size_t huge_headers_bytes = 0;
  std::optional<std::uint64_t> truncate_bytes;  ///< body bytes sent before a FIN
  std::string only;                             ///< engine name; empty: every engine

  [[nodiscard]] bool any() const noexcept {
    return status != 0 || reset != Where::never || close != Where::never || stall != Where::never ||
           delay.count() != 0 || drip.count() != 0 || bad_chunk || huge_headers_bytes != 0 || truncate_bytes;
  }
  /// Something happens at this point of the answer.
  [[nodiscard]] bool at(Where where) const noexcept { return reset == where || close == where || stall == where; }
};

/// Empty `error` on success. An unknown part is an error, so that a mistyped fault never lets a test pass.
[[nodiscard]] Fault parse_fault(std::string_view text, std::string& error);

}  // namespace warmroute::mock
