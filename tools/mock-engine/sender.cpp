#include "sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

namespace warmroute::mock {
namespace {

/// An IMF-fixdate, made once a second.
std::string_view http_date() {
  static std::time_t made = 0;
  static std::string text;
  const std::time_t now = std::time(nullptr);
  if (now != made) {
    std::tm utc{};
    gmtime_r(&now, &utc);
    char buffer[40];
    text.assign(buffer, std::strftime(buffer, sizeof buffer, "%a, %d %b %Y %H:%M:%S GMT", &utc));
    made = now;
  }
  return text;
}

void append_padding(std::string& out, std::size_t bytes) {
  constexpr std::size_t line = 4000;
  for (std::size_t i = 0; bytes > 0; ++i) {
    const std::size_t now = std::min(bytes, line);
    fmt::format_to(std::back_inserter(out), "x-mock-padding-{}: {}\r\n", i, std::string(now, 'p'));
    bytes -= now;
  }
}

}  // namespace

net::Task<bool> Sender::fault_point(Where where) {
  if (!fault_.at(where)) co_return true;
  if (!co_await flush()) co_return false;
  broken_ = true;
  if (fault_.stall == where)
    co_await connection_.wait_for_leave();
  else if (fault_.reset == where)
    connection_.reset();
  co_return false;
}

net::Task<bool> Sender::head(int status, std::string_view type, std::string_view extra_headers,
                             std::optional<std::size_t> length) {
  if (fault_.delay.count() > 0) {
    const auto until = net::Clock::now() + fault_.delay;
    while (net::Clock::now() < until)
      if (!co_await connection_.wait_until(until)) co_return false;
  }
  if (!co_await fault_point(Where::before_headers)) co_return false;
  if (fault_.bad_chunk) length.reset();
  chunked_ = !length && !connection_.http10;
  if (!length && connection_.http10) connection_.keep_alive = false;
  fmt::format_to(std::back_inserter(out_), "HTTP/1.1 {} {}\r\ndate: {}\r\nserver: mock-engine\r\nx-mock-engine: {}\r\n",
                 status, reason_phrase(status), http_date(), engine_name_);
  if (!type.empty()) fmt::format_to(std::back_inserter(out_), "content-type: {}\r\n", type);
  if (length) fmt::format_to(std::back_inserter(out_), "content-length: {}\r\n", *length);
  if (chunked_) out_ += "transfer-encoding: chunked\r\n";
  if (!connection_.keep_alive)
    out_ += "connection: close\r\n";
  else if (connection_.http10)
    out_ += "connection: keep-alive\r\n";
  out_ += extra_headers;
  append_padding(out_, fault_.huge_headers_bytes);
  out_ += "\r\n";
  co_return co_await fault_point(Where::after_headers);
}

void Sender::frame(std::string_view data) {
  if (data.empty()) return;
  if (chunked_) fmt::format_to(std::back_inserter(out_), "{:x}\r\n", data.size());
  out_ += data;
  if (chunked_) out_ += "\r\n";
}

net::Task<bool> Sender::piece(std::string_view data) {
  if (index_ == middle_) {
    if (fault_.bad_chunk) {
      out_ += "not-a-size\r\nbroken\r\n";
      (void)co_await flush();  // over either way
      broken_ = true;
      co_return false;
    }
    if (!co_await fault_point(Where::mid_stream)) co_return false;
  }
  ++index_;
  if (fault_.truncate_bytes && body_bytes_ + data.size() > *fault_.truncate_bytes) {
    frame(data.substr(0, *fault_.truncate_bytes - body_bytes_));
    (void)co_await flush();  // over either way
    broken_ = true;
    co_return false;
  }
  body_bytes_ += data.size();
  frame(data);
  co_return true;
}

net::Task<bool> Sender::flush() {
  if (out_.empty()) co_return true;
  bool ok = true;
  if (fault_.drip.count() == 0) {
    ok = co_await connection_.write(out_);
  } else {
    auto due = net::Clock::now();
    for (std::size_t i = 0; ok && i < out_.size(); ++i) {
      due += fault_.drip;
      while (ok && net::Clock::now() < due) ok = co_await connection_.wait_until(due);
      ok = ok && co_await connection_.write(std::string_view(out_).substr(i, 1));
    }
  }
  out_.clear();
  co_return ok;
}

net::Task<bool> Sender::finish() {
  // An answer of a single piece has its middle here.
  if (index_ <= middle_ && index_ > 0 && (fault_.bad_chunk || fault_.at(Where::mid_stream))) {
    index_ = middle_;
    if (!co_await piece("")) co_return false;
  }
  if (chunked_) out_ += "0\r\n\r\n";
  complete_ = co_await flush();
  co_return complete_;
}

}  // namespace warmroute::mock
