#include "http/inflate.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>

namespace warmroute::http {
namespace {

constexpr int gzip_only = 15 + 16;  // largest window, gzip wrapper required
constexpr std::size_t step = std::size_t{64} * 1024;

}  // namespace

struct GzipDecoder::Stream {
  z_stream z{};
  std::size_t left = 0;  ///< bytes that may still come out
  InflateResult result = InflateResult::ok;
  bool inside = true;  ///< in a member (or before the first)
  bool initialised = false;

  explicit Stream(std::size_t limit_bytes) : left(std::min(limit_bytes, std::numeric_limits<std::size_t>::max() - 1)) {
    initialised = inflateInit2(&z, gzip_only) == Z_OK;
    if (!initialised) result = InflateResult::corrupt;
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (initialised) (void)inflateEnd(&z);  // only reports what was known before
  }

  /// Decodes up to `step` bytes. \return false: nothing more to do with this input.
  bool advance(std::string& out) {
    if (!inside) {
      if (z.avail_in == 0) return false;
      // RFC 1952: members may follow each other; inflate refuses anything that is not one.
      if (inflateReset(&z) != Z_OK) return stop(InflateResult::corrupt);
      inside = true;
    }
    // One byte beyond the limit is asked for, to tell a body that just fits from one that does not.
    const std::size_t room = std::min(step, left + 1);
    const std::size_t before = out.size();
    out.resize(before + room);
    z.next_out = reinterpret_cast<Bytef*>(out.data() + before);
    z.avail_out = static_cast<uInt>(room);
    const int code = inflate(&z, Z_NO_FLUSH);
    const std::size_t made = room - z.avail_out;
    out.resize(before + std::min(made, left));
    if (made > left) return stop(InflateResult::too_large);
    left -= made;
    if (code == Z_STREAM_END) {
      inside = false;
      return true;
    }
    if (code == Z_BUF_ERROR) return false;  // wants more input
    if (code != Z_OK) return stop(InflateResult::corrupt);
    return z.avail_in > 0 || z.avail_out == 0;
  }

  bool stop(InflateResult why) {
    result = why;
    return false;
  }
};

GzipDecoder::GzipDecoder(std::size_t limit_bytes) : stream_(std::make_unique<Stream>(limit_bytes)) {}
GzipDecoder::~GzipDecoder() = default;
GzipDecoder::GzipDecoder(GzipDecoder&&) noexcept = default;
GzipDecoder& GzipDecoder::operator=(GzipDecoder&&) noexcept = default;

InflateResult GzipDecoder::feed(std::string_view piece, std::string& out) {
  Stream& stream = *stream_;
  while (!piece.empty() && stream.result == InflateResult::ok) {
    const std::size_t size = std::min<std::size_t>(piece.size(), std::numeric_limits<uInt>::max());
    stream.z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));  // zlib does not write to it
    stream.z.avail_in = static_cast<uInt>(size);
    while (stream.advance(out)) {
    }
    piece.remove_prefix(size);
  }
  return stream.result;
}

InflateResult GzipDecoder::finish() const noexcept {
  if (stream_->result != InflateResult::ok) return stream_->result;
  return stream_->inside ? InflateResult::truncated : InflateResult::ok;
}

InflateResult gunzip(std::string_view body, std::size_t limit_bytes, std::size_t padding, std::string& out) {
  out.clear();
  GzipDecoder decoder(limit_bytes);
  (void)decoder.feed(body, out);  // finish() repeats a failure
  out.reserve(out.size() + padding);
  return decoder.finish();
}

}  // namespace warmroute::http
