#pragma once
// Command line of the mock engine in one struct.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace warmroute::mock {

enum class Dialect : std::uint8_t { vllm, sglang };
/// Of a prefill/decode pair, and how the two are told about each other.
enum class PdRole : std::uint8_t { none, prefill, decode };
enum class PdConnector : std::uint8_t { http, lmcache, nixl, mooncake, sglang };

struct Options {
  std::string bind = "127.0.0.1";
  std::uint16_t port = 8000;  ///< 0: any free port
  std::string name;           ///< x-mock-engine header; empty: mock-PORT
  std::vector<std::string> models;
  std::vector<std::string> loras;
  Dialect dialect = Dialect::vllm;
  bool old_metrics = false;         ///< vLLM's metric names before 0.10
  std::size_t ranks = 1;            ///< data-parallel ranks, each with its own queue and cache
  std::size_t cache_blocks = 8192;  ///< per rank; 0 switches prefix caching off
  std::size_t block_tokens = 16;
  double prefill_tokens_per_second = 0;  ///< per rank, shared by its requests; 0: at once
  double decode_tokens_per_second = 0;   ///< per request; 0: at once
  std::size_t max_batch = 256;           ///< running requests per rank; the rest waits
  std::size_t default_tokens = 16;       ///< answer length when the request sets none
  std::chrono::milliseconds latency{0};
  PdRole pd_role = PdRole::none;
  PdConnector pd_connector = PdConnector::http;
  std::uint16_t bootstrap_port = 8998;  ///< connector sglang: prefill listens, decode connects there
  std::chrono::seconds keep_alive{5};   ///< idle connections are closed after this, as uvicorn does
};

/// Fills `options`; false: print `text` and exit with `code`.
bool parse_options(int argc, const char* const* argv, Options& options, std::string& text, int& code);

}  // namespace warmroute::mock
