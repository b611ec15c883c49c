#pragma once
// The state of one request on its way through the router: what serve_request() and the steps it calls hand to each
// other. Lives in the frame of serve_request(), on the session's worker.

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "http/head.hpp"
#include "http/message_parser.hpp"
#include "model/request_record.hpp"
#include "openai/inspect.hpp"
#include "proxy/context.hpp"
#include "proxy/session.hpp"

namespace warmroute::proxy {

struct Exchange {
  Exchange(Session& of, base::Bytes head_bytes)
      : session(of), shared(of.shared()), bytes(std::move(head_bytes)), budget(of.shared()) {}

  Session& session;
  Shared& shared;

  // Step 3: head. The views of `head` and `record` point into `bytes`.
  base::Bytes bytes;
  http::Head head;
  http::RequestParser parser;
  std::string path;         ///< decoded, without query
  std::string_view target;  ///< origin form, as the client wrote it
  std::string request_id;
  bool logged = false;       ///< a /v1/ path: one line in the access log
  bool keep_alive = true;    ///< the client's connection may serve another request
  bool body_unread = false;  ///< the body was not read to its end: the connection cannot go on

  // Step 5: body
  BufferBudget budget;
  base::Bytes body;     ///< as received, without transfer framing
  std::string decoded;  ///< of a gzip body; empty otherwise
  bool gzip = false;
  bool body_freed = false;

  // Step 6 to 8
  std::string model;  ///< as the client wrote it; outlives the inspection
  openai::Inspection inspection;
  std::vector<http::Edit> edits;
  schedule::States states;
  std::shared_ptr<const route::Table> table;
  /// Of newer tables, where the request waited for a pod meanwhile: the record has views into them.
  std::vector<std::shared_ptr<const model::ServerEntry>> servers;

  // Step 12
  model::RequestRecord record;
  metrics::GaugeGuard active, downstream;
  bool answered = false;  ///< the head of an answer was given to the client's socket

  [[nodiscard]] std::string_view readable_body() const noexcept {
    return gzip ? std::string_view(decoded) : body.view();
  }
  /// What plugins see; `prompt` and `tools` are empty once the body was given back.
  [[nodiscard]] RequestView view() const noexcept {
    RequestView view;
    view.model = record.model_label;
    view.prompt = inspection.prompt;
    view.token_estimate = inspection.prompt_tokens_estimate;
    if (!readable_body().empty()) view.tools = inspection.tools.of(readable_body());
    view.cache_salt = inspection.cache_salt;
    view.media = inspection.media;
    return view;
  }
  /// What --total-timeout leaves; the longest duration without one.
  [[nodiscard]] std::chrono::milliseconds time_left() const noexcept {
    const auto total = shared.settings.total_timeout;
    if (total.count() == 0) return std::chrono::milliseconds::max();
    const auto spent =
        std::chrono::duration_cast<std::chrono::milliseconds>(model::RequestRecord::Steady::now() - record.started);
    return std::max(total - spent, std::chrono::milliseconds(0));
  }
  /// The request can no longer be retried: its bytes go back at once, however long the answer takes.
  void free_body() noexcept {
    if (body_freed) return;
    body_freed = true;
    body.release();
    decoded = {};
    budget.release();
    inspection = {};
    edits = {};
  }
};

}  // namespace warmroute::proxy
