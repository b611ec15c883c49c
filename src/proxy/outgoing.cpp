#include "proxy/outgoing.hpp"

#include "http/forward_headers.hpp"
#include "openai/error_body.hpp"

namespace warmroute::proxy {

void rename_model(Exchange& exchange, const route::Match& match, std::vector<http::Edit>& edits) {
  auto& record = exchange.record;
  record.upstream_model = record.model;
  if (match.server->spec.model.empty() || match.lora) return;
  record.upstream_model = match.server->spec.model;
  std::string text = "\"";
  openai::append_json_escaped(text, match.server->spec.model, false);
  text += '"';
  for (const auto& span : exchange.inspection.model_values) edits.push_back({span, text});
}

Outgoing prepare(Exchange& exchange, const route::Match& match) {
  exchange.edits = exchange.inspection.ask_usage;
  rename_model(exchange, match, exchange.edits);
  return compose(exchange, exchange.edits);
}

Outgoing compose(Exchange& exchange, std::vector<http::Edit>& edits) {
  // A gzip body goes out as received unless something is spliced in.
  const bool decoded = exchange.gzip && !edits.empty();
  const auto original = decoded ? std::string_view(exchange.decoded) : exchange.body.view();
  Outgoing outgoing;
  outgoing.body = http::splice(original, edits);
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
