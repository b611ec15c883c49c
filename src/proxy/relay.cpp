#include "proxy/relay.hpp"

#include <array>
#include <charconv>

#include "http/forward_headers.hpp"

namespace warmroute::proxy {
namespace {

std::string_view media_type(std::string_view content_type) noexcept {
  auto type = content_type.substr(0, content_type.find(';'));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.remove_suffix(1);
  return type;
}

openai::BodyKind body_kind(const http::Head& head) noexcept {
  const auto coding = head.first(http::FieldName::content_encoding);
  if (!coding.empty() && !http::equals_ignoring_case(coding, "identity")) return openai::BodyKind::opaque;
  const auto type = media_type(head.first(http::FieldName::content_type));
  if (http::equals_ignoring_case(type, "text/event-stream")) return openai::BodyKind::event_stream;
  if (http::equals_ignoring_case(type, "application/json")) return openai::BodyKind::json;
  return openai::BodyKind::opaque;
}

openai::Protocol protocol(model::PathLabel path) noexcept {
  if (path == model::PathLabel::responses) return openai::Protocol::responses;
  if (path == model::PathLabel::messages) return openai::Protocol::anthropic;
  return openai::Protocol::openai;
}

iovec piece_of(std::string_view bytes) noexcept { return {const_cast<char*>(bytes.data()), bytes.size()}; }

}  // namespace

Relay::Relay(Exchange& exchange, EngineAnswer& answer, bool usage_was_added)
    : exchange_(exchange),
      answer_(answer),
      scanner_(protocol(exchange.record.path_label), body_kind(answer.head), usage_was_added),
      event_stream_(body_kind(answer.head) == openai::BodyKind::event_stream) {
  const auto& head = answer.head;
  may_hold_ = usage_was_added && event_stream_;
  no_body_ = head.framing.kind == http::Framing::Kind::none;
  if (no_body_) {
    framing_ = {};
  } else if (head.framing.kind == http::Framing::Kind::length && !may_hold_) {
    framing_ = head.framing;
  } else if (exchange.head.version == 11) {
    framing_.kind = http::Framing::Kind::chunked;
  } else {
    framing_.kind = http::Framing::Kind::until_close;
    exchange.keep_alive = false;
  }
}

void Relay::build_head() {
  if (exchange_.shared.draining.load(std::memory_order_relaxed)) exchange_.keep_alive = false;
  http::ResponseForwarding forwarding;
  forwarding.request_id = exchange_.request_id;
  forwarding.date = http::http_date();
  forwarding.framing = framing_;
  // Of HEAD and 304 it says how long the body would be; a 204 must not carry one (RFC 9110, 8.6).
  forwarding.keep_content_length = no_body_ && answer_.head.status != 204;
  forwarding.close = !exchange_.keep_alive;
  forwarding.http10_keep_alive = exchange_.head.version == 10 && exchange_.keep_alive;
  head_.reserve(answer_.bytes.size() + 160);
  http::append_response_head(head_, answer_.head, forwarding);
}

void Relay::emit(bool last, bool& flush_due) {
  auto& scratch = exchange_.session.context().scratch;
  std::size_t size = 0;
  for (const auto piece : scratch.out) size += piece.size();
  if (size == 0 && !last) return;

  auto& pieces = scratch.pieces;
  pieces.clear();
  if (!started_) {
    build_head();
    pieces.push_back(piece_of(head_));
    started_ = true;
    exchange_.answered = true;
    exchange_.record.status = answer_.head.status;
  }
  std::array<char, 20> chunk_head;
  const bool chunked = framing_.kind == http::Framing::Kind::chunked;
  if (chunked && size > 0) {
    auto end = std::to_chars(chunk_head.data(), chunk_head.data() + 16, size, 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    pieces.push_back({chunk_head.data(), static_cast<std::size_t>(end - chunk_head.data())});
  }
  for (const auto piece : scratch.out) pieces.push_back(piece_of(piece));
  if (chunked) {
    if (size > 0) pieces.push_back(piece_of(last ? "\r\n0\r\n\r\n" : "\r\n"));
    if (size == 0 && last) pieces.push_back(piece_of("0\r\n\r\n"));
  }
  flush_due = exchange_.session.write_now(pieces) || flush_due;
  if (!head_.empty()) head_ = {};
}

Relay::Step Relay::take(std::string_view data, bool& flush_due) {
  auto& scratch = exchange_.session.context().scratch;
  auto& input = answer_.input;
  if (!input.empty()) {  // part of a chunk header was left over
    if (data.data() != input.data()) input.append(data);
    data = input.view();
  }
  scratch.payload.clear();
  scratch.out.clear();
  std::size_t used = 0;
  const auto state = answer_.parser.parse_body(data, scratch.payload, used);
  const bool complete = state == http::BodyState::complete;
  if (scratch.payload.size() == 1) {
    scanner_.feed(scratch.payload.front(), scratch.out, complete);
  } else if (!scratch.payload.empty()) {
    // What the scanner hands out lives until its next call: several chunks of one read go in as one.
    scratch.joined.clear();
    for (const auto piece : scratch.payload) scratch.joined += piece;
    scanner_.feed(scratch.joined, scratch.out, complete);
  }
  if (complete) {
    if (may_hold_ && !scratch.out.empty()) {  // finish() ends the life of the views that feed() gave
      emit(false, flush_due);
      scratch.out.clear();
    }
    scanner_.finish(scratch.out);
    if (on_complete_ != nullptr) on_complete_(on_complete_owner_);
  }
  emit(complete, flush_due);

  if (input.empty()) {
    input.append(data.substr(used));
  } else {
    input.erase_front(used);
    if (input.empty()) input.release();
  }
  if (state == http::BodyState::bad || input.size() > 64 * 1024) return Step::cut;
  return complete ? Step::complete : Step::need_more;
}

Relay::Step Relay::take_eof(bool& flush_due) {
  if (!answer_.parser.complete_at_eof()) return Step::cut;
  auto& scratch = exchange_.session.context().scratch;
  scratch.out.clear();
  scanner_.finish(scratch.out);
  if (on_complete_ != nullptr) on_complete_(on_complete_owner_);
  emit(true, flush_due);
  return Step::complete;
}

void Relay::send_cut(std::string_view why, bool& flush_due) {
  exchange_.keep_alive = false;
  if (!event_stream_ || !scanner_.at_event_boundary() || framing_.kind == http::Framing::Kind::length) {
    if (framing_.kind == http::Framing::Kind::until_close) exchange_.session.end_with_reset();
    return;
  }
  const openai::ErrorForm form{exchange_.shared.settings.compat,
                               exchange_.record.path_label == model::PathLabel::messages};
  const auto event = openai::cut_stream_event(why, form);
  auto& scratch = exchange_.session.context().scratch;
  scratch.out.assign(1, event);
  emit(false, flush_due);
}

}  // namespace warmroute::proxy
