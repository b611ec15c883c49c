#include "pd/connector.hpp"

namespace warmroute::pd {

const Connector& connector_for(const model::ModelServer& server) noexcept {
  const std::string_view type = server.kv_connector ? std::string_view(*server.kv_connector) : std::string_view{};
  if (type == "lmcache") return lmcache_connector();
  if (type == "nixl") return nixl_connector();
  if (type == "mooncake") return mooncake_connector();
  if (type == "sglang" || (type.empty() && server.engine == model::Engine::sglang)) return sglang_connector();
  return http_connector();
}

void prefill_edits(const Connector& connector, const BodyMembers& members, const Pairing& pairing,
                   model::PathLabel path, std::vector<http::Edit>& out) {
  BodyEditor editor(members);
  editor.remove("stream");
  editor.remove("stream_options");
  editor.set("max_tokens", "1");
  if (members.has_value("max_completion_tokens")) editor.set("max_completion_tokens", "1");
  // Engines of the Responses API know no other limit: the prefill engine would write the whole answer.
  if (path == model::PathLabel::responses) editor.set("max_output_tokens", "1");
  connector.prefill(editor, pairing);
  editor.append_edits(out);
}

bool decode_edits(const Connector& connector, const BodyMembers& members, const Pairing& pairing,
                  std::string_view answer, std::vector<http::Edit>& out) {
  BodyEditor editor(members);
  if (!connector.decode(editor, pairing, answer)) return false;
  editor.append_edits(out);
  return true;
}

}  // namespace warmroute::pd
