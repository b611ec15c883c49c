#include "proxy/outgoing.hpp"

#include "http/forward_headers.hpp"
#include "openai/error_body.hpp"

namespace warmroute::proxy {

Outgoing prepare(Exchange& exchange, const route::Match& match) {
  auto& record = exchange.record;
  auto& inspection = exchange.inspection;
  record.upstream_model = record.model;
  exchange.edits = inspection.ask_usage;
  if (!match.server->spec.model.empty() && !match.lora) {
    record.upstream_model = match.server->spec.model;
    std::string text = "\"";
    openai::append_json_escaped(text, match.server->spec.model, false);
    text += '"';
    for (const auto& span : inspection.model_values) exchange.edits.push_back({span, text});
  }
  // A gzip body goes out as received unless something is spliced in.
  const bool decoded = exchange.gzip && !exchange.edits.empty();
  const auto original = decoded ? std::string_view(exchange.decoded) : exchange.body.view();
  Outgoing outgoing;
  outgoing.body = http::splice(original, exchange.edits);
  http::RequestForwarding forwarding;
  forwarding.target = exchange.target;
  forwarding.request_id = exchange.request_id;
  forwarding.has_body = true;
  forwarding.content_length = http::total_size(outgoing.body);
  forwarding.drop_content_encoding = decoded;
  std::string client_address;
  if (exchange.shared.settings.forwarded_headers) {
    client_address = exchange.session.client_address();
    forwarding.forwarded_for = client_address;
    forwarding.forwarded_proto = exchange.session.client().is_tls() ? "https" : "http";
  }
  outgoing.head.reserve(exchange.bytes.size() + 128);
  http::append_request_head(outgoing.head, exchange.head, forwarding);
  return outgoing;
}

}  // namespace warmroute::proxy
