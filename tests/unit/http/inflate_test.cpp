#include "http/inflate.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <string>

namespace warmroute::http {
namespace {

std::string gzip(std::string_view text, int window_bits = 15 + 16) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&z, static_cast<uLong>(text.size())) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

InflateResult decode(std::string_view body, std::size_t limit, std::string& out) {
  return gunzip(body, limit, 64, out);
}

TEST_CASE("gunzip decodes under the limit") {
  const std::string text = R"({"model":"m","prompt":"hello hello hello"})";
  std::string out = "old";
  REQUIRE(decode(gzip(text), 1000, out) == InflateResult::ok);
  CHECK(out == text);
  CHECK(out.capacity() >= out.size() + 64);
  REQUIRE(decode(gzip(text), text.size(), out) == InflateResult::ok);
  CHECK(out == text);
  CHECK(decode(gzip(text), text.size() - 1, out) == InflateResult::too_large);
  CHECK(out.size() <= text.size());
  REQUIRE(decode(gzip(""), 0, out) == InflateResult::ok);
  CHECK(out.empty());
  CHECK(decode(gzip("x"), 0, out) == InflateResult::too_large);
  REQUIRE(decode(gzip(text), std::string::npos, out) == InflateResult::ok);
}

TEST_CASE("gunzip stops a bomb at the limit") {
  const std::string bomb = gzip(std::string(64 << 20, '\0'));
  REQUIRE(bomb.size() < 100'000);
  std::string out;
  CHECK(decode(bomb, 1 << 20, out) == InflateResult::too_large);
  CHECK(out.size() <= (1 << 20));
  CHECK(out.capacity() < (4 << 20));
  std::string many;
  for (int i = 0; i < 50; ++i) many += gzip(std::string(100'000, 'x'));
  CHECK(decode(many, 1 << 20, out) == InflateResult::too_large);
}

TEST_CASE("gunzip takes several members and nothing else behind them") {
  const std::string body = gzip("one ") + gzip("") + gzip("two");
  std::string out;
  REQUIRE(decode(body, 100, out) == InflateResult::ok);
  CHECK(out == "one two");
  CHECK(decode(body + "xx", 100, out) == InflateResult::corrupt);
  CHECK(decode(body + std::string(8, '\0'), 100, out) == InflateResult::corrupt);
  CHECK(decode(body + "x", 100, out) == InflateResult::truncated);  // one byte is no header yet
  CHECK(decode(body + "\x1f", 100, out) == InflateResult::truncated);
}

TEST_CASE("gunzip refuses truncated and damaged input") {
  const std::string body = gzip("some text that is long enough to have a body of its own");
  std::string out;
  for (std::size_t size = 0; size < body.size(); ++size) {
    INFO(size);
    CHECK(decode(std::string_view(body).substr(0, size), 1000, out) == InflateResult::truncated);
  }
  std::string damaged = body;
  damaged[damaged.size() - 6] = static_cast<char>(damaged[damaged.size() - 6] ^ 1);  // check sum
  CHECK(decode(damaged, 1000, out) == InflateResult::corrupt);
  CHECK(decode("plain text", 1000, out) == InflateResult::corrupt);
  CHECK(decode(gzip("zlib wrapper", 15), 1000, out) == InflateResult::corrupt);
}

TEST_CASE("GzipDecoder gives the same for every split") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += std::to_string(i * 7919) + ",";
  const std::string body = gzip(text.substr(0, 700)) + gzip(text.substr(700));
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    GzipDecoder decoder(text.size());
    std::string out;
    REQUIRE(decoder.feed(std::string_view(body).substr(0, cut), out) == InflateResult::ok);
    REQUIRE(decoder.feed(std::string_view(body).substr(cut), out) == InflateResult::ok);
    CHECK(decoder.finish() == InflateResult::ok);
    CHECK(out == text);
  }
  GzipDecoder decoder(text.size() - 1);
  std::string out;
  InflateResult result = InflateResult::ok;
  for (const char c : body) result = decoder.feed(std::string_view(&c, 1), out);
  CHECK(result == InflateResult::too_large);
  CHECK(decoder.finish() == InflateResult::too_large);
  CHECK(out.size() == text.size() - 1);
}

}  // namespace
}  // namespace warmroute::http
