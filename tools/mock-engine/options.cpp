#include "options.hpp"

#include <CLI/CLI.hpp>
#include <map>
#include <sstream>

namespace warmroute::mock {

bool parse_options(int argc, const char* const* argv, Options& o, std::string& text, int& code) {
  CLI::App app{"An inference engine stand-in: OpenAI and Anthropic shapes, engine metrics, faults on demand"};
  app.name("mock-engine");
  app.set_version_flag("--version", WARMROUTE_VERSION);
  app.option_defaults()->always_capture_default();
  std::int64_t latency_ms = 0;
  std::int64_t keep_alive_s = o.keep_alive.count();
  app.add_option("--bind", o.bind, "address to listen on");
  app.add_option("--port", o.port, "port; 0 takes a free one and prints it");
  app.add_option("--name", o.name, "value of the x-mock-engine header (default mock-PORT)");
  app.add_option("--model", o.models, "served model name, repeatable (default mock-model)");
  app.add_option("--lora", o.loras, "LoRA adapter loaded at start, repeatable");
  app.add_option("--engine", o.dialect, "vllm or sglang: metric names and paths")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Dialect>{{"vllm", Dialect::vllm}, {"sglang", Dialect::sglang}}, CLI::ignore_case));
  app.add_flag("--old-metrics", o.old_metrics, "vLLM metric names before 0.10");
  app.add_option("--dp", o.ranks, "data-parallel ranks")->check(CLI::Range(1, 64));
  app.add_option("--cache-blocks", o.cache_blocks, "prefix cache size per rank in blocks; 0: off");
  app.add_option("--block-size", o.block_tokens, "tokens of about 4 bytes per block")->check(CLI::Range(1, 4096));
  app.add_option("--prefill-tokens-per-second", o.prefill_tokens_per_second, "per rank; 0: at once")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--decode-tokens-per-second", o.decode_tokens_per_second, "per request; 0: at once")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--max-batch", o.max_batch, "running requests per rank")->check(CLI::Range(1, 1000000));
  app.add_option("--max-tokens", o.default_tokens, "answer length when the request sets none");
  app.add_option("--pd-role", o.pd_role, "prefill or decode: half of a pair; requests are checked")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, PdRole>{
              {"none", PdRole::none}, {"prefill", PdRole::prefill}, {"decode", PdRole::decode}},
          CLI::ignore_case));
  app.add_option("--pd-connector", o.pd_connector, "http, lmcache, nixl, mooncake or sglang")
      ->transform(CLI::CheckedTransformer(std::map<std::string, PdConnector>{{"http", PdConnector::http},
                                                                             {"lmcache", PdConnector::lmcache},
                                                                             {"nixl", PdConnector::nixl},
                                                                             {"mooncake", PdConnector::mooncake},
                                                                             {"sglang", PdConnector::sglang}},
                                          CLI::ignore_case));
  app.add_option("--bootstrap-port", o.bootstrap_port, "connector sglang: where prefill engines meet decode engines");
  app.add_option("--latency", latency_ms, "milliseconds added to every answer")->check(CLI::Range(0, 3600000));
  app.add_option("--keep-alive", keep_alive_s, "seconds before an idle connection is closed")
      ->check(CLI::Range(1, 86400));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::ostringstream out;
    std::ostringstream err;
    code = app.exit(e, out, err);
    text = out.str() + err.str();
    return false;
  }
  o.latency = std::chrono::milliseconds(latency_ms);
  o.keep_alive = std::chrono::seconds(keep_alive_s);
  if (o.models.empty()) o.models.emplace_back("mock-model");
  return true;
}

}  // namespace warmroute::mock
