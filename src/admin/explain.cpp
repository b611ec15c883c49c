#include "admin/explain.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/rng.hpp"
#include "http/head.hpp"
#include "http/inflate.hpp"
#include "model/request_record.hpp"
#include "openai/error_body.hpp"
#include "openai/inspect.hpp"

namespace warmroute::admin {
namespace {

class NoHeaders final : public route::HeaderSource {
 public:
  [[nodiscard]] std::string_view first(std::string_view) const override { return {}; }
};

void append_json(std::string& out, const Value& value);

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  openai::append_json_escaped(out, text, false);
  out += '"';
}

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> text{};
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
}

void append_json(std::string& out, const Value::List& list) {
  out += '[';
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i != 0) out += ',';
    append_json(out, list[i]);
  }
  out += ']';
}

void append_json(std::string& out, const Value::Map& map) {
  out += '{';
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (i != 0) out += ',';
    append_quoted(out, map[i].first);
    out += ':';
    append_json(out, map[i].second);
  }
  out += '}';
}

void append_json(std::string& out, const Value& value) {
  std::visit(
      [&out](const auto& held) {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, std::monostate>) {
          out += "null";
        } else if constexpr (std::is_same_v<Held, bool>) {
          out += held ? "true" : "false";
        } else if constexpr (std::is_same_v<Held, double>) {
          append_number(out, std::isfinite(held) ? held : 0.0);
        } else if constexpr (std::is_same_v<Held, std::int64_t>) {
          append_number(out, held);
        } else if constexpr (std::is_same_v<Held, std::string>) {
          append_quoted(out, held);
        } else {
          append_json(out, held);
        }
      },
      value.data);
}

Page json_page(int status, const Value::Map& said) {
  Page page;
  page.status = status;
  page.content_type = "application/json; charset=utf-8";
  append_json(page.body, said);
  page.body += '\n';
  return page;
}

Page refused(int status, std::string why) { return json_page(status, {{"error", Value{std::move(why)}}}); }

std::string_view inference_path(std::string_view target) {
  const auto query = target.find('?');
  constexpr std::string_view name = "path=";
  std::string_view rest = query == std::string_view::npos ? std::string_view() : target.substr(query + 1);
  while (!rest.empty()) {
    const auto end = rest.find('&');
    if (rest.starts_with(name))
      return rest.substr(name.size(), end == std::string_view::npos ? end : end - name.size());
    if (end == std::string_view::npos) break;
    rest.remove_prefix(end + 1);
  }
  return "/v1/chat/completions";
}

std::string route_problem(const route::Match& match) {
  switch (match.kind) {
    case route::Match::Kind::not_found:
      return "route not found";
    case route::Match::Kind::server_missing:
      return "can't find model server: " + match.detail;
    case route::Match::Kind::not_supported:
      return match.detail + ", which is not supported by this build";
    case route::Match::Kind::matched:
      break;
  }
  return {};
}

/// The body as the proxy would read it, followed by the padding of openai::inspect(); else the refusal.
std::optional<Page> unpack(const ExplainContext& context, const Post& post, std::string& out) {
  const std::string_view coding = context.compat ? std::string_view() : post.content_encoding;
  if (coding.empty() || http::equals_ignoring_case(coding, "identity")) {
    out = post.body;
  } else if (http::equals_ignoring_case(coding, "gzip") || http::equals_ignoring_case(coding, "x-gzip")) {
    const auto verdict = http::gunzip(post.body, explain_body_limit_bytes, openai::body_padding, out);
    if (verdict == http::InflateResult::too_large) return refused(413, "request body is too large");
    if (verdict != http::InflateResult::ok) return refused(400, "request body is not valid gzip");
  } else {
    return refused(415, "this Content-Encoding is not supported; send gzip or none");
  }
  out.append(openai::body_padding, '\0');
  return std::nullopt;
}

PodView view_of(const model::PodEntry& entry, model::Clock::time_point now, std::chrono::milliseconds max_age) {
  PodView pod;
  pod.id = entry.record->id();
  pod.name = entry.record->key();
  pod.in_flight = entry.record->in_flight();
  pod.load = entry.record->fresh_sample(now, max_age);
  pod.loaded_models = *entry.loaded_models;
  return pod;
}

}  // namespace

Page explain_page(const ExplainContext& context, const Post& post) {
  const std::string_view target = post.target;
  if (target.substr(0, target.find('?')) != explain_path)
    return refused(404, "POST is for " + std::string(explain_path));
  const std::string_view path = inference_path(target);
  std::string padded;
  if (auto refusal = unpack(context, post, padded)) return std::move(*refusal);
  openai::InspectOptions options;
  options.path = model::path_label(path);
  options.prompt_bytes = context.pipeline.prompt_bytes_wanted();
  options.compat = context.compat;
  openai::Inspection inspection;
  openai::Refusal refusal;
  const auto readable = std::string_view(padded).substr(0, padded.size() - openai::body_padding);
  if (!openai::inspect(readable, options, inspection, refusal)) return refused(400, refusal.message);

  const NoHeaders headers;
  route::Query query;
  query.model = inspection.model;
  query.path = path;
  query.headers = &headers;
  const auto match = context.table.match(query, &base::random64);
  if (match.kind != route::Match::Kind::matched) return refused(404, route_problem(match));

  RequestView view;
  view.model = context.table.declared_name(inspection.model);
  view.prompt = inspection.prompt;
  view.token_estimate = inspection.prompt_tokens_estimate;
  view.tools = inspection.tools.of(readable);
  view.cache_salt = inspection.cache_salt;
  view.media = inspection.media;
  Value::Map said;
  said.emplace_back("model", Value{std::string(view.model)});
  said.emplace_back("modelRoute", Value{std::string(match.route_key)});
  said.emplace_back("modelServer", Value{std::string(match.server_key)});
  said.emplace_back("tokenEstimate", Value{view.token_estimate});
  const auto now = model::Clock::now();
  const auto explain_role = [&](const char* name, model::PdRole role) {
    std::vector<PodView> pods;
    for (const auto& entry : match.server->pods)
      if (entry.role == role) pods.push_back(view_of(entry, now, context.sample_max_age));
    said.emplace_back(name, Value{context.pipeline.explain(view, pods)});
  };
  if (match.server->spec.pd_group) {  // scored in passes of their own
    explain_role("prefillPlugins", model::PdRole::prefill);
    explain_role("decodePlugins", model::PdRole::decode);
  } else {
    explain_role("plugins", model::PdRole::none);
  }
  return json_page(200, said);
}

}  // namespace warmroute::admin
