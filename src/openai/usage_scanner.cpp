#include "openai/usage_scanner.hpp"

#include <cstring>
#include <utility>

#include "openai/either_byte.hpp"

namespace warmroute::openai {
namespace {

/// Buffers above this are given back: there is one scanner per running request.
constexpr std::size_t kept_capacity = 4096;

void reset(std::string& buffer) {
  if (buffer.capacity() > kept_capacity) {
    std::string().swap(buffer);
  } else {
    buffer.clear();
  }
}

const char* find(std::string_view text, std::string_view wanted) noexcept {
  return static_cast<const char*>(memmem(text.data(), text.size(), wanted.data(), wanted.size()));
}

std::string_view trim(std::string_view text) noexcept {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Whether there is a member `usage` with a value. Engines that were asked for usage put `"usage":null` into every
/// event, so that must not cost a parse.
bool may_have_usage(std::string_view event) noexcept {
  static constexpr std::string_view name = "\"usage\"";
  for (;;) {
    const char* found = find(event, name);
    if (found == nullptr) return false;
    event.remove_prefix(static_cast<std::size_t>(found - event.data()) + name.size());
    std::string_view value = trim(event);
    if (!value.starts_with(':')) continue;
    value = trim(value.substr(1));
    if (!value.starts_with("null")) return true;
  }
}

/// The payload of a line, without surrounding blanks. \return false: not a data line.
bool data_of(std::string_view line, std::string_view& data) noexcept {
  if (!line.starts_with("data")) return false;
  line.remove_prefix(4);
  if (!line.empty() && line.front() != ':') return false;
  data = line.empty() ? line : trim(line.substr(1));
  return true;
}

/// Joins the data lines of an event (`joined` is used when there are several). `done`: one of them is [DONE].
std::string_view event_data(std::string_view event, std::string& joined, bool& done) {
  std::string_view result;
  std::size_t lines = 0;
  while (!event.empty()) {
    const std::size_t end = std::min(event.find_first_of("\r\n"), event.size());
    std::string_view data;
    if (data_of(event.substr(0, end), data)) {
      done = done || data == "[DONE]";
      if (++lines == 1) {
        result = data;
      } else {
        if (lines == 2) joined = result;
        joined.append("\n").append(data);
      }
    }
    event.remove_prefix(std::min(end + 1, event.size()));
  }
  return lines > 1 ? std::string_view(joined) : result;
}

}  // namespace

UsageScanner::UsageScanner(Protocol protocol, BodyKind kind, bool remove_usage_event)
    : protocol_(protocol), kind_(kind), remove_(remove_usage_event && kind == BodyKind::event_stream) {}

void UsageScanner::feed(std::string_view chunk, std::vector<std::string_view>& out, bool last) {
  reset(sent_);
  if (chunk.empty()) return;
  const bool whole = last && !handed_out_;
  handed_out_ = true;
  if (!remove_) out.push_back(chunk);
  if (kind_ == BodyKind::event_stream) {
    feed_events(chunk, out);
  } else if (kind_ == BodyKind::json && !(whole && JsonUsageCapture::read_whole(chunk, protocol_, usage_))) {
    capture_.feed(chunk, protocol_, usage_);
  }
}

void UsageScanner::feed_events(std::string_view chunk, std::vector<std::string_view>& out) {
  const char* p = chunk.data();
  const char* const end = p + chunk.size();
  const char* ready = p;  // [ready, begin) is to be handed out, [begin, p) belongs to the event that is arriving
  const char* begin = p;
  EitherByte line_ends('\n', '\r', p, end);
  while (p != end) {
    if (after_cr_) {
      after_cr_ = false;
      if (*p == '\n') {
        ++p;
        if (event_bytes_ == 0 && begin + 1 == p) {  // the rest of the blank line before this event
          if (last_dropped_ && ready == begin) ready = p;
          begin = p;
        }
        continue;
      }
    }
    const char* stop = line_ends.find(p);
    if (stop != p) {
      if (line_empty_) ++event_lines_;
      line_empty_ = false;
    }
    if (stop == end) break;
    p = stop + 1;
    after_cr_ = *stop == '\r';
    if (!std::exchange(line_empty_, true)) continue;
    // A blank line: the event ends here.
    end_event(begin, p, ready, out);
    begin = p;
  }
  keep_rest(begin, end, ready, out);
}

void UsageScanner::end_event(const char* begin, const char* end, const char*& ready,
                             std::vector<std::string_view>& out) {
  const auto size = static_cast<std::size_t>(end - begin);
  const bool readable = !passed_on_ && event_bytes_ + size <= event_limit();
  const bool continued = !held_.empty();
  if (continued && readable) held_.append(begin, size);
  const bool drop = readable && read_event(continued ? std::string_view(held_) : std::string_view(begin, size));
  if (remove_) {
    if (continued && !drop) {
      std::swap(held_, sent_);
      out.push_back(sent_);
    }
    if (drop) {
      if (ready != begin) out.emplace_back(ready, static_cast<std::size_t>(begin - ready));
    }
    if (drop || (continued && readable)) ready = end;
  }
  reset(held_);
  last_dropped_ = drop && remove_;
  event_bytes_ = 0;
  event_lines_ = 0;
  passed_on_ = false;
}

void UsageScanner::keep_rest(const char* begin, const char* end, const char* ready,
                             std::vector<std::string_view>& out) {
  const auto size = static_cast<std::size_t>(end - begin);
  event_bytes_ += size;
  const bool hold = !passed_on_ && event_bytes_ <= event_limit();
  if (remove_) {
    if (!hold && !held_.empty()) {
      std::swap(held_, sent_);
      out.push_back(sent_);
    }
    const char* until = hold ? begin : end;
    if (until != ready) out.emplace_back(ready, static_cast<std::size_t>(until - ready));
  }
  if (hold) {
    held_.append(begin, size);
  } else {
    reset(held_);
    passed_on_ = event_bytes_ > 0;
  }
}

void UsageScanner::finish(std::vector<std::string_view>& out) {
  reset(sent_);
  if (kind_ != BodyKind::event_stream || held_.empty()) return;
  const bool drop = read_event(held_);
  std::swap(held_, sent_);
  reset(held_);
  event_lines_ = 0;
  if (remove_ && drop) {
    event_bytes_ = 0;
  } else if (remove_) {
    passed_on_ = true;
    out.push_back(sent_);
  }
}

bool UsageScanner::at_event_boundary() const noexcept {
  if (kind_ != BodyKind::event_stream) return !handed_out_;
  return event_bytes_ == 0 || (remove_ && !passed_on_);
}

bool UsageScanner::read_event(std::string_view event) {
  static constexpr std::string_view responses_end = "response.completed";
  static constexpr std::string_view anthropic_end = "message_stop";
  const bool with_usage = may_have_usage(event);
  if (protocol_ == Protocol::openai) {
    std::string_view data;
    const bool plain = event_lines_ == 1 && data_of(event, data) && data.starts_with('{');
    if (plain && !with_usage) return false;
  } else if (!with_usage && find(event, protocol_ == Protocol::responses ? responses_end : anthropic_end) == nullptr) {
    return false;
  }
  std::string joined;
  bool done = false;
  const std::string_view data = event_data(event, joined, done);
  if (protocol_ == Protocol::openai && done) {
    terminated_ = true;
    return false;
  }
  UsageEvent read;
  if (!data.starts_with('{') || !read_usage_event(data, protocol_, read)) return false;
  if (protocol_ == Protocol::openai) {
    if (read.usage.seen && read.usage.total_tokens > 0) usage_ = read.usage;
    return remove_ && read.usage.seen && !read.has_choices;
  }
  // These report as they go; what counts is what a complete answer said.
  merge_usage(pending_, read.usage, protocol_);
  if (read.type == (protocol_ == Protocol::responses ? responses_end : anthropic_end)) terminated_ = true;
  if (terminated_ && pending_.total_tokens > 0) usage_ = pending_;
  return false;
}

}  // namespace warmroute::openai
