#include "answer_reader.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

namespace bench {

void AnswerReader::reset() {
  const auto events = events_;
  *this = AnswerReader();
  events_ = events;
}

int AnswerReader::take_events() noexcept { return std::exchange(events_, 0); }

bool AnswerReader::read_head() {
  if (line_.size() < 12 || line_.compare(0, 9, "HTTP/1.1 ") != 0) return false;
  std::from_chars(line_.data() + 9, line_.data() + 12, status_);
  std::transform(line_.begin(), line_.end(), line_.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const std::string_view head = line_;
  closes_ = head.find("\r\nconnection: close") != std::string_view::npos;
  constexpr std::string_view length = "\r\ncontent-length:";
  if (auto at = head.find(length); at != std::string_view::npos) {
    at = head.find_first_not_of(' ', at + length.size());
    std::from_chars(head.data() + at, head.data() + head.size(), left_);
    part_ = Part::fixed;
    return true;
  }
  part_ = Part::chunk_size;
  return head.find("\r\ntransfer-encoding: chunked") != std::string_view::npos;
}

void AnswerReader::count_events(std::string_view body) noexcept {
  while (!body.empty()) {
    if (after_newline_ && body.front() == '\n') ++events_;
    after_newline_ = false;
    const auto at = body.find('\n');
    if (at == std::string_view::npos) return;
    if (at + 1 < body.size() && body[at + 1] == '\n') {
      ++events_;
      body.remove_prefix(at + 2);
    } else {
      body.remove_prefix(at + 1);
      after_newline_ = body.empty();
    }
  }
}

AnswerReader::State AnswerReader::feed(std::string_view bytes, std::size_t& used) {
  const auto all = bytes.size();
  const auto ended = [&](State state) {
    used = all - bytes.size();
    return state;
  };
  // Moves a line up to and with `end` into line_; false while it is not complete.
  const auto take_line = [&](std::string_view end) {
    const auto before = line_.size();
    const auto overlap = std::min(before, end.size() - 1);
    line_.append(bytes);
    const auto at = line_.find(end, before - overlap);
    if (at == std::string::npos) {
      bytes = {};
      return false;
    }
    bytes.remove_prefix(at + end.size() - before);
    line_.resize(at + end.size());
    return true;
  };
  for (;;) {
    switch (part_) {
      case Part::head:
        if (!take_line("\r\n\r\n")) return ended(State::more);
        if (!read_head()) return ended(State::broken);
        line_.clear();
        if (part_ == Part::fixed && left_ == 0) return ended(State::complete);
        break;
      case Part::fixed:
      case Part::chunk: {
        const auto piece = bytes.substr(0, left_);
        count_events(piece);
        left_ -= piece.size();
        bytes.remove_prefix(piece.size());
        if (left_ > 0) return ended(State::more);
        if (part_ == Part::fixed) return ended(State::complete);
        part_ = Part::chunk_end;
        break;
      }
      case Part::chunk_end:
        if (!take_line("\r\n")) return ended(State::more);
        line_.clear();
        part_ = Part::chunk_size;
        break;
      case Part::chunk_size: {
        if (!take_line("\r\n")) return ended(State::more);
        const auto read = std::from_chars(line_.data(), line_.data() + line_.size(), left_, 16);
        if (read.ec != std::errc()) return ended(State::broken);
        line_.clear();
        part_ = left_ == 0 ? Part::trailer : Part::chunk;
        break;
      }
      case Part::trailer: {
        if (!take_line("\r\n")) return ended(State::more);
        const bool last = line_.size() == 2;
        line_.clear();
        if (last) return ended(State::complete);
        break;
      }
    }
  }
}

}  // namespace bench
