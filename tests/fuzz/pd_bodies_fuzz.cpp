// libFuzzer: byte 0 chooses connector and path, the rest is a client's body, a byte 0xff and a prefill engine's answer.
// What either pod of a pair is sent says what the connector means, and every other member stands as it was.
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "openai/inspect.hpp"
#include "pd/connector.hpp"

namespace {

using namespace warmroute;
using Members = std::vector<std::pair<std::string, std::string>>;

void require(bool condition) {
  if (!condition) std::abort();
}

std::string padded(std::string_view text) {
  std::string copy(text);
  return copy.append(openai::body_padding, '"');
}

bool accepted(std::string_view body) {
  const std::string copy = padded(body);
  openai::Inspection inspection;
  openai::Refusal refusal;
  return openai::inspect(std::string_view(copy).substr(0, body.size()), {}, inspection, refusal);
}

/// By another parser, which refuses a little more. False: not an object for it.
bool read(std::string_view body, Members& out) {
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  const simdjson::padded_string copy(body);
  if (parser.parse(copy).get(object) != simdjson::SUCCESS) return false;
  for (const auto field : object) out.emplace_back(field.key, simdjson::minify(field.value));
  return true;
}

void remove(Members& members, std::string_view name) {
  members.erase(std::remove_if(members.begin(), members.end(), [&](const auto& each) { return each.first == name; }),
                members.end());
}

/// Takes `name` out of both. It must be in `sent`, each time with this value, and no more often than it was.
void require_set(Members& original, Members& sent, std::string_view name, std::string_view value) {
  const auto named = [&](const auto& each) { return each.first == name; };
  const auto before = std::count_if(original.begin(), original.end(), named);
  require(std::count_if(sent.begin(), sent.end(), named) == std::max<std::ptrdiff_t>(before, 1));
  for (const auto& [key, json] : sent) require(key != name || value.empty() || json == value);
  remove(original, name);
  remove(sent, name);
}

bool has_value(const Members& members, std::string_view name) {
  const auto last =
      std::find_if(members.rbegin(), members.rend(), [&](const auto& each) { return each.first == name; });
  return last != members.rend() && last->second != "null";
}

std::string spliced(std::string_view body, std::vector<http::Edit>& edits) {
  std::string sent;
  for (const std::string_view piece : http::splice(body, edits)) sent.append(piece);
  require(accepted(sent));
  return sent;
}

void check_prefill(const pd::Connector& connector, Members original, Members sent, model::PathLabel path) {
  for (const auto* name : {"stream", "stream_options"}) {
    remove(original, name);
    require(std::none_of(sent.begin(), sent.end(), [&](const auto& each) { return each.first == name; }));
  }
  const bool limited = has_value(original, "max_completion_tokens");
  require_set(original, sent, "max_tokens", "1");
  if (limited) require_set(original, sent, "max_completion_tokens", "1");
  if (path == model::PathLabel::responses) require_set(original, sent, "max_output_tokens", "1");
  if (connector.reads_answer()) require_set(original, sent, "kv_transfer_params", {});
  if (connector.order() == pd::Order::together) require_set(original, sent, "bootstrap_room", "7");
  require(original == sent);
}

void check_decode(const pd::Connector& connector, Members original, Members sent, std::string_view answer) {
  Members params;
  if (connector.reads_answer() && read(answer, params)) {
    // Of several the last counts, as for every reader.
    const auto last = std::find_if(params.rbegin(), params.rend(),
                                   [](const auto& each) { return each.first == "kv_transfer_params"; });
    require_set(original, sent, "kv_transfer_params", last == params.rend() ? "null" : last->second);
  } else if (connector.reads_answer()) {
    require_set(original, sent, "kv_transfer_params", {});
  }
  if (connector.order() == pd::Order::together) {
    require_set(original, sent, "bootstrap_room", "7");
    require_set(original, sent, "bootstrap_host", R"("10.0.0.7")");
  }
  require(original == sent);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::array<const pd::Connector*, 5> connectors{&pd::http_connector(), &pd::lmcache_connector(),
                                                       &pd::nixl_connector(), &pd::mooncake_connector(),
                                                       &pd::sglang_connector()};
  const auto& connector = *connectors[(data[0] & 7U) % connectors.size()];
  const auto path = (data[0] & 8U) != 0 ? model::PathLabel::responses : model::PathLabel::chat_completions;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t cut = std::min(text.find('\xff'), text.size());
  const std::string body_bytes = padded(text.substr(0, cut));
  const std::string_view body = std::string_view(body_bytes).substr(0, cut);
  const std::string answer_bytes = padded(text.substr(std::min(cut + 1, text.size())));
  const auto answer = std::string_view(answer_bytes).substr(0, answer_bytes.size() - openai::body_padding);
  if (!accepted(body)) return 0;  // the client has got its 400

  const pd::BodyMembers members(body);
  const pd::Pairing pairing{"10.0.0.7", 7};
  Members original;
  const bool readable = read(body, original);
  std::vector<http::Edit> edits;
  pd::prefill_edits(connector, members, pairing, path, edits);
  Members sent;
  const std::string to_prefill = spliced(body, edits);
  if (readable) {
    require(read(to_prefill, sent));
    check_prefill(connector, original, sent, path);
  }
  edits.clear();
  if (!pd::decode_edits(connector, members, pairing, answer, edits)) {
    require(connector.reads_answer());
    Members params;
    require(!read(answer, params));
    return 0;
  }
  const std::string to_decode = spliced(body, edits);
  sent.clear();
  if (!readable) return 0;
  // The answer's value is handed on unread: what this parser refuses in it the engine has to.
  if (read(to_decode, sent)) check_decode(connector, original, sent, answer);
  return 0;
}
