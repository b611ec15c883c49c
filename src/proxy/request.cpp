#include "proxy/request.hpp"

#include "base/rng.hpp"
#include "http/forward_headers.hpp"
#include "http/percent.hpp"
#include "proxy/body.hpp"
#include "proxy/finish.hpp"
#include "proxy/forward.hpp"
#include "proxy/local_answer.hpp"
#include "proxy/pd_forward.hpp"

namespace warmroute::proxy {
namespace {

using openai::ErrorKind;
using Steady = model::RequestRecord::Steady;

class MatcherHeaders final : public route::HeaderSource {
 public:
  explicit MatcherHeaders(const http::Head& head) noexcept : head_(head) {}
  [[nodiscard]] std::string_view first(std::string_view name) const override {
    if (http::equals_ignoring_case(name, "host")) return {};
    return head_.first(name);
  }

 private:
  const http::Head& head_;
};

// Runs finish() on every way out, a thrown bad_alloc included.
struct FinishGuard {
  Exchange& exchange;
  ~FinishGuard() { finish(exchange); }
};

// The target's origin form: what stands behind the authority of an absolute one.
std::string_view origin_form(std::string_view target) noexcept {
  const auto scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return target;
  const auto slash = target.find('/', scheme + 3);
  return slash == std::string_view::npos ? "/" : target.substr(slash);
}

// Step 3. False: refused already.
Result<void> understand_head(Exchange& exchange) {
  auto parsed = exchange.parser.parse_head(exchange.bytes.view(), exchange.head);
  if (!parsed) return parsed;
  auto& record = exchange.record;
  exchange.keep_alive = exchange.head.keep_alive;
  exchange.target = origin_form(exchange.head.target);
  if (!http::percent_decode(http::path_of(exchange.target), exchange.path))
    return Error{Errc::bad_framing, Source::client, Retry::never, "malformed percent escape in the request target"};
  exchange.logged = exchange.path.starts_with("/v1/");
  const auto given = exchange.head.first("x-request-id");
  if (http::usable_request_id(given)) {
    exchange.request_id = given;
  } else {
    http::append_uuid(exchange.request_id);
  }
  record.arrived_at = std::chrono::system_clock::now();
  record.started = Steady::now();
  record.method = exchange.head.method;
  record.path = exchange.path;
  record.protocol = exchange.head.version == 11 ? "HTTP/1.1" : "HTTP/1.0";
  record.request_id = exchange.request_id;
  record.path_label = model::path_label(exchange.path);
  return {};
}

// Steps 5 and 6. A refusal is returned, not yet answered.
net::Task<std::optional<openai::Refusal>> understand_body(
    Exchange& exchange) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto refusal = co_await read_body(exchange);
  if (refusal) co_return refusal;
  const auto& shared = exchange.shared;
  openai::InspectOptions options;
  options.path = exchange.record.path_label;
  options.prompt_bytes = shared.pipeline->prompt_bytes_wanted();
  options.compat = shared.settings.compat;
  if (exchange.body.empty()) exchange.body.reserve(openai::body_padding);  // the padding must exist
  auto& record = exchange.record;
  refusal.emplace();
  const bool understood = openai::inspect(exchange.readable_body(), options, exchange.inspection, *refusal);
  exchange.model = std::move(exchange.inspection.model);
  record.model = exchange.model;
  if (const auto declared = exchange.table->declared_name(record.model); !declared.empty())
    record.model_label = declared;
  if (!understood) {
    if (refusal->kind == ErrorKind::model_missing) record.model = {};  // blank: nobody's name
    co_return refusal;
  }
  record.input_tokens = exchange.inspection.prompt_tokens_estimate;
  record.parsed = Steady::now();
  if (exchange.readable_body().size() > net::Worker::step_bytes) co_await exchange.session.context().worker.give_way();
  co_return std::nullopt;
}

void count_refusal(Exchange& exchange, ErrorKind kind) {
  // Go counts a prompt that cannot be extracted under the model's name; everything before that is model "unknown".
  exchange.record.counted = true;
  if (kind != ErrorKind::prompt_missing) exchange.record.model_label = "unknown";
}

net::Task<> route_and_forward(Exchange& exchange) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& record = exchange.record;
  const MatcherHeaders headers(exchange.head);
  route::Query query;
  query.model = record.model;
  query.path = exchange.path;
  query.headers = &headers;
  auto match = exchange.table->match(query, &base::random64);
  record.model_route = match.route_key;
  switch (match.kind) {
    case route::Match::Kind::not_found:
      record.model_route = {};
      co_await answer_error(exchange, ErrorKind::route_not_found, "route not found");
      co_return;
    case route::Match::Kind::server_missing:
      record.model_route = {};
      co_await answer_error(exchange, ErrorKind::server_missing, "can't find model server: " + match.detail);
      co_return;
    case route::Match::Kind::not_supported:
      co_await answer_error(exchange, ErrorKind::not_supported,
                            match.detail + ", which is not supported by this build");
      co_return;
    case route::Match::Kind::matched:
      break;
  }
  if (match.server->pods.empty()) {
    std::string message = "no available pods for model server: " + match.server->key;
    record.model_route = {};
    co_await answer_error(exchange, ErrorKind::no_pods, std::move(message));
    co_return;
  }
  if (match.server->spec.pd_group) {
    co_await forward_pair(exchange, std::move(match));
  } else {
    co_await forward(exchange, std::move(match));
  }
}

net::Task<> handle(Exchange& exchange) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  auto& session = exchange.session;
  exchange.table = session.context().table;
  if (auto understood = understand_head(exchange); !understood) {
    exchange.keep_alive = false;
    exchange.shared.counters.refused_heads->inc();
    co_await answer_refusal(session, understood.error());
    co_return;
  }
  if (exchange.logged) exchange.active = exchange.shared.metrics->active_request();
  const auto framing = exchange.head.framing;
  const bool has_body = framing.kind == http::Framing::Kind::chunked || framing.length > 0;
  exchange.body_unread = has_body;
  if (session.over_limit()) exchange.keep_alive = false;
  const bool inference = exchange.head.method == "POST" && exchange.logged;
  if (!inference && co_await answer_locally(exchange)) co_return;
  if (session.over_limit()) {
    count_refusal(exchange, ErrorKind::overloaded);
    co_await answer_error(exchange, ErrorKind::overloaded, "the router has too many connections");
    co_return;
  }

  if (auto refusal = co_await understand_body(exchange)) {
    count_refusal(exchange, refusal->kind);
    co_await answer_error(exchange, refusal->kind, std::move(refusal->message));
    co_return;
  }
  exchange.record.counted = true;
  exchange.downstream = exchange.shared.metrics->active_downstream(exchange.record.model_label);
  co_await route_and_forward(exchange);
}

}  // namespace

net::Task<bool> serve_request(Session& session,
                              base::Bytes head) {  // NOLINT(cppcoreguidelines-avoid-reference-coroutine-parameters)
  Exchange exchange(session, std::move(head));
  {
    const FinishGuard guard{exchange};
    co_await handle(exchange);
  }
  co_return exchange.keep_alive;
}

}  // namespace warmroute::proxy
