#include "proxy/kept_answer.hpp"

#include "http/forward_headers.hpp"
#include "proxy/local_answer.hpp"

namespace warmroute::proxy {
namespace {

net::Task<> answer_kept(Exchange& exchange,
                        KeptAnswer kept) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& record = exchange.record;
  const auto& head = kept.answer.head;
  if (exchange.shared.draining.load(std::memory_order_relaxed)) exchange.keep_alive = false;
  http::ResponseForwarding forwarding;
  forwarding.request_id = exchange.request_id;
  forwarding.date = http::http_date();
  forwarding.framing = {http::Framing::Kind::length, kept.body.size()};
  forwarding.close = !exchange.keep_alive;
  forwarding.http10_keep_alive = exchange.head.version == 10 && exchange.keep_alive;
  if (exchange.head.method == "HEAD") {
    forwarding.framing = {};
    forwarding.keep_content_length = true;
  }
  std::string out;
  http::append_response_head(out, head, forwarding);
  out += kept.body;
  record.status = record.upstream_status = head.status;
  record.error_type = record.metric_error_type = "upstream_response";
  record.error_origin = "upstream";
  record.error_message = "pod " + kept.pod + " returned HTTP " + std::to_string(head.status);
  exchange.answered = true;
  (void)co_await exchange.session.write_all(out);  // a client that is gone needs no answer
}

}  // namespace

net::Task<> answer_all_failed(Exchange& exchange, KeptAnswer kept, bool only_timeouts,
                              const char* message) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  using openai::ErrorKind;
  auto& record = exchange.record;
  record.upstream_ended = model::RequestRecord::Steady::now();
  if (kept.usable) {
    co_await answer_kept(exchange, std::move(kept));
    co_return;
  }
  co_await answer_error(exchange, only_timeouts ? ErrorKind::all_pods_timed_out : ErrorKind::all_pods_failed, message);
  record.error_message = "request processing failed";
}

}  // namespace warmroute::proxy
