#pragma once
// Decodes a gzip request body piece by piece, so that it can be read while it arrives and so that a bomb stops at the
// limit and not in memory.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace warmroute::http {

enum class InflateResult {
  ok,
  too_large,  ///< more than the limit
  corrupt,    ///< broken data, wrong check sum, or anything but another gzip member behind a member
  truncated   ///< ended inside a member, or without any
};

class GzipDecoder {
 public:
  /// \param limit_bytes most bytes that may come out.
  explicit GzipDecoder(std::size_t limit_bytes);
  ~GzipDecoder();
  GzipDecoder(GzipDecoder&&) noexcept;
  GzipDecoder& operator=(GzipDecoder&&) noexcept;

  /// Decodes the next piece and appends to `out`, which holds no more than limit_bytes of decoded data afterwards.
  /// After anything but `ok` the decoder is done and repeats its answer.
  [[nodiscard]] InflateResult feed(std::string_view piece, std::string& out);
  /// The body has ended: ok, truncated, or what feed said last.
  [[nodiscard]] InflateResult finish() const noexcept;

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/// The whole body at once; replaces `out`, whose buffer has at least `padding` readable bytes behind the data.
[[nodiscard]] InflateResult gunzip(std::string_view body, std::size_t limit_bytes, std::size_t padding,
                                   std::string& out);

}  // namespace warmroute::http
