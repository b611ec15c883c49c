#include "http/message_parser.hpp"

#include <boost/beast/http/error.hpp>
#include <cstring>

#include "http/framing.hpp"

namespace warmroute::http {
namespace beast = boost::beast;

HeadEnd::State HeadEnd::feed(std::string_view data) noexcept {
  while (scanned_ < data.size()) {
    const auto* newline = static_cast<const char*>(std::memchr(data.data() + scanned_, '\n', data.size() - scanned_));
    if (in_fields_ && scanned_ == line_start_ && (data[scanned_] == ' ' || data[scanned_] == '\t'))
      return State::bad_framing;  // folded line
    if (newline == nullptr) {
      scanned_ = data.size();
      return State::need_more;
    }
    const auto at = static_cast<std::size_t>(newline - data.data());
    if (at == 0 || data[at - 1] != '\r') return State::bad_framing;  // bare LF
    const bool empty_line = at - line_start_ == 1;
    scanned_ = line_start_ = at + 1;
    if (empty_line) return State::found;
    in_fields_ = true;
  }
  return State::need_more;
}

namespace {

constexpr std::size_t usual_fields = 16;

}  // namespace

namespace detail {

template <bool IsRequest>
class BeastParser final : public beast::http::basic_parser<IsRequest> {
 public:
  Head* head = nullptr;      // while the head is parsed
  Pieces* pieces = nullptr;  // while body bytes are parsed

  BeastParser() {
    this->body_limit(boost::none);  // limits are the reader's: responses have none, requests one for both framings
    this->header_limit(16U << 20U);
    this->eager(true);
  }

 private:
  using error_code = beast::error_code;
  using string_view = beast::string_view;
  static std::string_view std_view(string_view text) { return {text.data(), text.size()}; }

  void on_request_impl(beast::http::verb, string_view method, string_view target, int version, error_code&) override {
    head->method = std_view(method);
    head->target = std_view(target);
    head->version = version;
  }
  void on_response_impl(int code, string_view reason, int version, error_code&) override {
    head->status = code;
    head->reason = std_view(reason);
    head->version = version;
  }
  void on_field_impl(FieldName id, string_view name, string_view value, error_code&) override {
    if (head != nullptr) head->fields.push_back({id, std_view(name), std_view(value)});  // else: a trailer
  }
  void on_header_impl(error_code&) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(string_view body, error_code&) override {
    pieces->push_back(std_view(body));
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, string_view body, error_code&) override {
    pieces->push_back(std_view(body));
    return body.size();
  }
  void on_finish_impl(error_code&) override {}
};

}  // namespace detail

template <bool IsRequest>
MessageParser<IsRequest>::MessageParser() = default;
template <bool IsRequest>
MessageParser<IsRequest>::~MessageParser() = default;
template <bool IsRequest>
MessageParser<IsRequest>::MessageParser(MessageParser&&) noexcept = default;
template <bool IsRequest>
MessageParser<IsRequest>& MessageParser<IsRequest>::operator=(MessageParser&&) noexcept = default;

template <bool IsRequest>
Result<void> MessageParser<IsRequest>::parse_head(std::string_view bytes, Head& out, bool answers_head) {
  constexpr auto side = IsRequest ? Source::client : Source::engine;
  constexpr auto retry = IsRequest ? Retry::never : Retry::next_pod;
  out.clear();
  if (out.fields.capacity() == 0) out.fields.reserve(usual_fields);
  parser_ = std::make_unique<detail::BeastParser<IsRequest>>();
  parser_->head = &out;
  if constexpr (!IsRequest) parser_->skip(answers_head);
  beast::error_code ec;
  // Not eager here: body bytes come through parse_body().
  parser_->eager(false);
  const auto used = [&] {
    std::size_t total = parser_->put({bytes.data(), bytes.size()}, ec);
    if (!ec && !parser_->is_header_done()) total += parser_->put({bytes.data() + total, bytes.size() - total}, ec);
    return total;
  }();
  parser_->head = nullptr;
  parser_->eager(true);
  if (ec) {
    const auto code = ec == beast::http::error::bad_version ? Errc::bad_version : Errc::bad_framing;
    return Error{code, side, retry, ec.message()};
  }
  if (used != bytes.size() || !parser_->is_header_done())
    return Error{Errc::bad_framing, side, retry, "incomplete head"};
  out.keep_alive = parser_->keep_alive();
  return check_framing(out, IsRequest, answers_head);
}

namespace {

bool has_bare_line_feed(std::string_view framing) noexcept {
  for (auto at = framing.find('\n'); at != std::string_view::npos; at = framing.find('\n', at + 1))
    if (at == 0 || framing[at - 1] != '\r') return true;
  return false;
}

}  // namespace

template <bool IsRequest>
BodyState MessageParser<IsRequest>::parse_body(std::string_view data, Pieces& pieces, std::size_t& used) {
  used = 0;
  if (parser_ == nullptr) return BodyState::bad;
  if (parser_->is_done()) return BodyState::complete;
  const auto first_piece = pieces.size();
  parser_->pieces = &pieces;
  beast::error_code ec;
  while (used < data.size() && !parser_->is_done()) {
    const auto step = parser_->put({data.data() + used, data.size() - used}, ec);
    used += step;
    if (ec == beast::http::error::need_more) {
      ec = {};
      break;
    }
    if (ec) break;
  }
  parser_->pieces = nullptr;
  if (ec) return BodyState::bad;
  // Beast waits for ever for the CRLF of a chunk header that ends in a bare LF, and lets one pass in a trailer.
  std::size_t from = 0;
  for (auto piece = pieces.begin() + static_cast<std::ptrdiff_t>(first_piece); piece != pieces.end(); ++piece) {
    const auto begin = static_cast<std::size_t>(piece->data() - data.data());
    if (has_bare_line_feed(data.substr(from, begin - from))) return BodyState::bad;
    from = begin + piece->size();
  }
  const auto end = parser_->is_done() ? used : data.size();
  if (has_bare_line_feed(data.substr(from, end - from))) return BodyState::bad;
  return parser_->is_done() ? BodyState::complete : BodyState::need_more;
}

template <bool IsRequest>
bool MessageParser<IsRequest>::complete_at_eof() {
  if (complete()) return true;
  if (parser_ == nullptr) return false;
  beast::error_code ec;
  parser_->put_eof(ec);
  return !ec;
}

template <bool IsRequest>
bool MessageParser<IsRequest>::complete() const noexcept {
  return parser_ != nullptr && parser_->is_done();
}

template class MessageParser<true>;
template class MessageParser<false>;

}  // namespace warmroute::http
