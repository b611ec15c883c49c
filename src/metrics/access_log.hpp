#pragma once
// One line per /v1/ request (spec 17). Formatted on the worker into a reused buffer, written by one thread in
// batches; a slow disk or pipe never blocks a request. Lines over the bound are dropped and counted.

#include <cstdint>
#include <memory>
#include <string>

#include "model/request_record.hpp"
#include "warmroute/result.hpp"

namespace warmroute::metrics {

struct AccessLogOptions {
  bool enabled = true;
  bool json = false;              ///< ACCESS_LOG_FORMAT
  std::string output = "stdout";  ///< stdout, stderr or a file path (append, 0644)
  std::size_t buffer_bytes = 8U << 20U;
};

class AccessLog {
 public:
  /// Error: "failed to create access logger: failed to open access log file P: ...".
  static Result<std::unique_ptr<AccessLog>> create(const AccessLogOptions& options);
  virtual ~AccessLog() = default;  ///< writes what is left
  virtual void write(const model::RequestRecord& record) = 0;
  [[nodiscard]] virtual std::uint64_t lost() const noexcept = 0;
  /// Reopens a file output (SIGHUP, after log rotation).
  virtual void reopen() = 0;
  virtual void flush() = 0;
};

/// The line without its newline. Pure; control characters are escaped in both formats.
void format_access_json(const model::RequestRecord& record, std::string& out);
void format_access_text(const model::RequestRecord& record, std::string& out);

}  // namespace warmroute::metrics
