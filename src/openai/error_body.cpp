#include "openai/error_body.hpp"

#include <array>
#include <cstddef>

#include "openai/json_string.hpp"

namespace warmroute::openai {
namespace {

struct Row {
  ErrorKind kind;
  int status;
  int compat_status;
  std::string_view code;
  std::string_view metric;  ///< empty: the default of the status
  bool close;
  bool plain_in_compat;  ///< Go's HTTP server answers these below the router, as plain text
};

constexpr std::string_view parsing = "request_parsing";
constexpr std::string_view discovery = "pod_discovery";

constexpr std::array rows{
    Row{ErrorKind::body_interrupted, 400, 500, parsing, parsing, true, false},
    Row{ErrorKind::body_timeout, 408, 408, parsing, parsing, true, false},
    Row{ErrorKind::bad_json, 400, 400, parsing, parsing, false, false},
    Row{ErrorKind::trailing_data, 400, 400, parsing, parsing, false, false},
    Row{ErrorKind::model_missing, 400, 404, parsing, parsing, false, false},
    Row{ErrorKind::prompt_missing, 404, 404, "prompt_parsing", "prompt_parsing", false, false},
    Row{ErrorKind::bad_framing, 400, 400, parsing, parsing, true, true},
    Row{ErrorKind::head_too_large, 431, 431, parsing, parsing, true, true},
    Row{ErrorKind::head_timeout, 408, 408, parsing, parsing, true, true},
    Row{ErrorKind::unknown_coding, 501, 501, parsing, parsing, true, true},
    Row{ErrorKind::bad_version, 505, 505, parsing, parsing, true, true},
    Row{ErrorKind::body_too_large, 413, 413, parsing, parsing, true, false},
    Row{ErrorKind::unsupported_encoding, 415, 415, parsing, parsing, false, false},
    Row{ErrorKind::path_not_found, 404, 404, "path_not_found", "", false, true},
    Row{ErrorKind::model_unknown, 404, 404, "model_not_found", "", false, false},
    Row{ErrorKind::route_not_found, 404, 404, "route_not_found", "route_not_found", false, false},
    Row{ErrorKind::server_missing, 404, 404, discovery, discovery, false, false},
    Row{ErrorKind::no_pods, 503, 503, discovery, discovery, false, false},
    Row{ErrorKind::all_filtered, 503, 400, "scheduling", "", false, false},
    Row{ErrorKind::no_candidates, 503, 503, "proxy", "proxy", false, false},
    Row{ErrorKind::all_pods_failed, 503, 503, "proxy", "proxy", false, false},
    Row{ErrorKind::all_pods_timed_out, 504, 504, "proxy", "proxy", false, false},
    Row{ErrorKind::not_supported, 503, 503, "not_supported", "not_supported", false, false},
    Row{ErrorKind::queue_full, 503, 503, "queue_full", "queue_full", false, false},
    Row{ErrorKind::queue_timeout, 503, 503, "queue_timeout", "queue_timeout", false, false},
    Row{ErrorKind::overloaded, 503, 503, "overloaded", "overloaded", false, false},
    Row{ErrorKind::draining, 503, 503, "draining", "draining", false, false},
    Row{ErrorKind::internal, 500, 500, "internal_error", "", false, false},
};

constexpr bool rows_in_order() {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::size_t>(rows[i].kind) != i) return false;
  }
  return rows.size() == static_cast<std::size_t>(ErrorKind::internal) + 1;
}
static_assert(rows_in_order());

const Row& row(ErrorKind kind) noexcept { return rows[static_cast<std::size_t>(kind)]; }

std::string_view anthropic_type(int status) noexcept {
  return status == 413 ? std::string_view("request_too_large") : error_type(status);
}

void append_error_object(std::string& out, int status, std::string_view error_code, std::string_view message,
                         bool anthropic) {
  out.append(anthropic ? R"({"type":"error","error":{"message":")" : R"({"error":{"message":")");
  append_json_escaped(out, message, false);
  out.append(R"(","type":")").append(anthropic ? anthropic_type(status) : error_type(status));
  out.append(R"(","param":null,"code":")").append(error_code).append(R"("}})");
}

std::string_view reason(int status) noexcept {
  switch (status) {
    case 400:
      return "Bad Request";
    case 408:
      return "Request Timeout";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    default:
      return "HTTP Version Not Supported";
  }
}

void render_plain(ErrorKind kind, std::string_view message, ErrorReply& reply) {
  if (kind == ErrorKind::path_not_found) {
    reply.content_type = "text/plain";
    reply.body = "404 page not found";
    return;
  }
  reply.content_type = "text/plain; charset=utf-8";
  reply.body = std::to_string(reply.status);
  reply.body.append(" ").append(reason(reply.status));
  if (!message.empty()) reply.body.append(": ").append(message);
}

}  // namespace

std::string_view code(ErrorKind kind) noexcept { return row(kind).code; }

std::string_view metric_error_type(ErrorKind kind) noexcept { return row(kind).metric; }

int status(ErrorKind kind, bool compat) noexcept { return compat ? row(kind).compat_status : row(kind).status; }

std::string_view error_type(int status) noexcept {
  switch (status) {
    case 400:
    case 413:
    case 415:
    case 431:
      return "invalid_request_error";
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    case 504:
      return "timeout_error";
    default:
      return "api_error";
  }
}

ErrorReply render_error(ErrorKind kind, std::string_view message, ErrorForm form) {
  ErrorReply reply;
  reply.status = status(kind, form.compat);
  reply.close = row(kind).close;
  if (form.compat) {
    if (row(kind).plain_in_compat) {
      render_plain(kind, message, reply);
    } else {
      reply.content_type = "application/json; charset=utf-8";
      reply.body = "\"";
      append_json_escaped(reply.body, message, true);
      reply.body.push_back('"');
    }
    return reply;
  }
  reply.content_type = "application/json";
  if (reply.status == 429 || reply.status == 503) reply.retry_after_seconds = 1;
  append_error_object(reply.body, reply.status, row(kind).code, message, form.anthropic);
  return reply;
}

std::string cut_stream_event(std::string_view message, ErrorForm form) {
  // Always an object: a stream has no status, so a bare string could not be told from content.
  std::string event = form.anthropic ? "event: error\ndata: " : "data: ";
  append_error_object(event, 502, "upstream_cut", message, form.anthropic);
  event.append("\n\n");
  return event;
}

void append_json_escaped(std::string& out, std::string_view text, bool escape_html) {
  static constexpr std::string_view hex = "0123456789abcdef";
  const auto plain = [&](unsigned char c) {
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\' && !(escape_html && (c == '<' || c == '>' || c == '&'));
  };
  std::size_t i = 0;
  while (i < text.size()) {
    const std::size_t run = i;
    while (i < text.size() && plain(static_cast<unsigned char>(text[i]))) ++i;
    out.append(text.substr(run, i - run));
    if (i == text.size()) return;
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80) {
      const std::size_t length = valid_utf8_length(text.substr(i, 4));
      const std::string_view rest = text.substr(i);
      if (length == 0) {
        out.append("\\ufffd");
        ++i;
      } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
        out.append(rest.starts_with("\u2028") ? "\\u2028" : "\\u2029");
        i += 3;
      } else {
        // The window of four bytes may hold more than one character: only the first is taken.
        std::size_t end = 1;
        while (end < length && (static_cast<unsigned char>(rest[end]) & 0xC0U) == 0x80) ++end;
        out.append(rest.substr(0, end));
        i += end;
      }
      continue;
    }
    ++i;
    switch (c) {
      case '"':
      case '\\':
        out.push_back('\\');
        out.push_back(static_cast<char>(c));
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\r':
        out.append("\\r");
        break;
      case '\t':
        out.append("\\t");
        break;
      case '\b':
        out.append("\\b");
        break;
      case '\f':
        out.append("\\f");
        break;
      default:
        out.append("\\u00");
        out.push_back(hex[c >> 4U]);
        out.push_back(hex[c & 0xFU]);
    }
  }
}

}  // namespace warmroute::openai
