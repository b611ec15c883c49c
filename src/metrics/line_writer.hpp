#pragma once
// Writes batches of lines to a descriptor and knows which lines got lost on the way.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "warmroute/result.hpp"

namespace warmroute::metrics {

class LineWriter {
 public:
  /// \param output "stdout", "stderr" or a path (append, created with mode 0644).
  static Result<LineWriter> open(const std::string& output);
  LineWriter(LineWriter&& other) noexcept;
  LineWriter& operator=(LineWriter&&) = delete;
  ~LineWriter();

  /// Blocks until the lines are written or lost. `give_up` is asked each 100 ms while a pipe or socket takes nothing.
  /// \return lines lost: a write error (disk full, reader gone), or given up.
  std::uint64_t write(std::string_view lines, const std::function<bool()>& give_up);
  /// Opens the path anew; on failure the old file stays and the error is returned. No-op for stdout and stderr.
  Result<void> reopen();

 private:
  LineWriter(std::string path, int descriptor);
  bool write_all(std::string_view& rest, const std::function<bool()>& give_up);

  std::string path_;  ///< empty: not ours to open or close
  int descriptor_;
  bool may_stall_ = false;    ///< pipe, socket or terminal: a reader that sleeps would block write()
  bool inside_line_ = false;  ///< the last write ended in the middle of a line
};

}  // namespace warmroute::metrics
