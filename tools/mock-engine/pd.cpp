#include "pd.hpp"

#include <fmt/format.h>

#include "text.hpp"

namespace warmroute::mock {
namespace {

namespace dom = simdjson::dom;

bool transfers(PdConnector connector) { return connector == PdConnector::nixl || connector == PdConnector::mooncake; }

/// A number above 2^63 that ties the parameters to prefill engine and prompt: a router that loses digits, or mixes
/// pairs up, is found out.
std::uint64_t seal(std::string_view engine, const Job& job) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  };
  add(engine);
  add(job.model);
  for (const auto& prompt : job.prompts) add(prompt);
  return hash | 1ULL << 63U;
}

std::optional<std::string> read_room(const dom::element& root, Job& job) {
  std::int64_t room = 0;
  if (root["bootstrap_room"].get(room) || room < 0) return "bootstrap_room must be a number from 0 to 2^63-1";
  job.room = std::to_string(room);
  return std::nullopt;
}

std::optional<std::string> read_prefill(const dom::element& root, PdConnector connector, Job& job) {
  std::int64_t tokens = 0;
  if (root["max_tokens"].get(tokens) || tokens != 1) return "a prefill request must have max_tokens 1";
  dom::element value;
  if (!root["max_completion_tokens"].get(value) && !value.is_null() && (value.get(tokens) || tokens != 1))
    return "a prefill request must have max_completion_tokens 1, null or none";
  if (!root["stream"].get(value)) return "a prefill request must not have stream";
  if (!root["stream_options"].get(value)) return "a prefill request must not have stream_options";
  if (transfers(connector)) {
    bool decode = false;
    bool prefill = true;
    if (root["kv_transfer_params"]["do_remote_decode"].get(decode) || !decode)
      return "kv_transfer_params.do_remote_decode must be true";
    if (root["kv_transfer_params"]["do_remote_prefill"].get(prefill) || prefill)
      return "kv_transfer_params.do_remote_prefill must be false";
  }
  return connector == PdConnector::sglang ? read_room(root, job) : std::nullopt;
}

std::optional<std::string> read_decode(const dom::element& root, PdConnector connector, Job& job) {
  if (connector == PdConnector::sglang) {
    std::string_view host;
    if (root["bootstrap_host"].get(host) || host.empty()) return "bootstrap_host must name the prefill engine";
    job.bootstrap_host = host;
    return read_room(root, job);
  }
  dom::element params;
  const bool given = !root["kv_transfer_params"].get(params);
  if (!transfers(connector)) {
    if (given) return "kv_transfer_params do not belong to this connector";
    return std::nullopt;
  }
  if (!given || params.is_null()) return std::nullopt;  // computes the prompt itself
  bool prefill = false;
  if (params["do_remote_prefill"].get(prefill) || !prefill)
    return "kv_transfer_params.do_remote_prefill must be true, as the prefill engine answered";
  std::string_view engine;
  std::uint64_t sealed = 0;
  if (params["remote_engine_id"].get(engine) || params["seal"].get(sealed) || sealed != seal(engine, job))
    return "kv_transfer_params are not what a prefill engine answered for this prompt";
  job.remote_cache = true;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> read_pd(const dom::element& root, const Options& options, Job& job) {
  switch (options.pd_role) {
    case PdRole::prefill:
      return read_prefill(root, options.pd_connector, job);
    case PdRole::decode:
      return read_decode(root, options.pd_connector, job);
    case PdRole::none:
      break;
  }
  return std::nullopt;
}

void add_transfer_params(std::string& body, const Options& options, const Job& job) {
  if (options.pd_role != PdRole::prefill || !transfers(options.pd_connector) || body.empty()) return;
  body.pop_back();  // the closing brace
  body +=
      fmt::format(R"(,"kv_transfer_params":{{"do_remote_prefill":true,"do_remote_decode":false,"remote_engine_id":{},)"
                  R"("remote_block_ids":[1,2,3],"remote_host":"{}","remote_port":5600,"seal":{}}}}})",
                  json_string(options.name), options.bind, seal(options.name, job));
}

}  // namespace warmroute::mock
