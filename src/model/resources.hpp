#pragma once
// The custom resources and pods as plain values, defaults applied, validated. No I/O, no clocks.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace warmroute::model {

using Labels = std::map<std::string, std::string>;

struct ObjectMeta {
  std::string ns = "default";
  std::string name;
  std::string uid;  ///< empty in standalone files that give none
  std::string resource_version;
  Labels labels;
  /// Unix seconds; nullopt: not given (standalone), then `position` orders.
  std::optional<std::int64_t> creation_timestamp;
  bool deletion_timestamp = false;  ///< terminating: no new requests
  /// Order of standalone documents: by file name, then position. 0 for cluster objects.
  std::uint64_t position = 0;

  [[nodiscard]] std::string key() const { return ns + "/" + name; }
  friend bool operator==(const ObjectMeta&, const ObjectMeta&) = default;
};

struct StringMatch {
  std::optional<std::string> exact, prefix, regex;  ///< precedence in this order; none: matches everything
  friend bool operator==(const StringMatch&, const StringMatch&) = default;
};

struct ModelMatch {
  /// A header rule whose match is null never matches.
  std::map<std::string, std::optional<StringMatch>> headers;
  std::optional<StringMatch> uri;
  std::optional<std::string> body_model;
  friend bool operator==(const ModelMatch&, const ModelMatch&) = default;
};

struct TargetModel {
  std::string model_server_name;
  std::string external_provider_name;
  std::optional<std::int32_t> weight;  ///< the CRD default 100 is applied when documents are read
  friend bool operator==(const TargetModel&, const TargetModel&) = default;
};

struct Rule {
  std::string name;
  std::optional<ModelMatch> match;
  /// A null entry of `targetModels` is nullopt. Only objects that passed no schema have one.
  std::vector<std::optional<TargetModel>> targets;
  friend bool operator==(const Rule&, const Rule&) = default;
};

struct ParentRef {
  std::string group = "gateway.networking.k8s.io", kind = "Gateway";
  std::optional<std::string> ns;
  std::string name;
  std::optional<std::string> section_name;
  std::optional<std::int32_t> port;
  friend bool operator==(const ParentRef&, const ParentRef&) = default;
};

struct RateLimit {
  std::optional<std::int64_t> input_tokens_per_unit, output_tokens_per_unit;
  std::string unit = "second";
  std::optional<std::string> redis_address;
  friend bool operator==(const RateLimit&, const RateLimit&) = default;
};

struct ModelRoute {
  ObjectMeta meta;
  std::string model_name;
  std::vector<std::string> lora_adapters;
  std::vector<ParentRef> parent_refs;
  std::vector<std::optional<Rule>> rules;  ///< a null rule never matches
  std::optional<RateLimit> rate_limit;
  std::string spec_json;  ///< the spec as JSON, for the debug pages
  friend bool operator==(const ModelRoute&, const ModelRoute&) = default;
};

enum class Engine : std::uint8_t { vllm, sglang };
[[nodiscard]] constexpr const char* name(Engine engine) noexcept { return engine == Engine::vllm ? "vLLM" : "SGLang"; }

struct PdGroup {
  std::string group_key;
  Labels prefill_labels, decode_labels;
  friend bool operator==(const PdGroup&, const PdGroup&) = default;
};

struct RetryPolicy {
  std::int32_t attempts = 0;  ///< tries after the first, each on another pod
  std::chrono::milliseconds interval{100};
  friend bool operator==(const RetryPolicy&, const RetryPolicy&) = default;
};

struct ModelServer {
  ObjectMeta meta;
  std::string model;  ///< replaces the request's `model` towards the engine; empty: absent
  Engine engine = Engine::vllm;
  Labels selector;
  std::optional<PdGroup> pd_group;
  std::uint16_t port = 0;
  bool https = false;
  std::optional<std::chrono::milliseconds> timeout;  ///< trafficPolicy.timeout: until response headers
  std::optional<RetryPolicy> retry;
  std::optional<std::string> kv_connector;
  std::string spec_json;
  friend bool operator==(const ModelServer&, const ModelServer&) = default;
};

struct Pod {
  ObjectMeta meta;
  std::string ip;                     ///< textual IPv4 or IPv6, without brackets
  std::string host;                   ///< name the address was looked up from (StaticPods); empty: none
  std::optional<std::uint16_t> port;  ///< own port (StaticPods); wins over the ModelServer's workloadPort
  bool ready = true;                  ///< Running, Ready, not terminating
  std::string phase = "Running";
  std::string node_name;
  std::optional<std::string> start_time;       ///< RFC 3339, for the debug page
  std::optional<std::string> container_start;  ///< start of the engine container, part of the incarnation
  bool is_static = false;                      ///< from StaticPods: no kubelet, the router probes it itself
  friend bool operator==(const Pod&, const Pod&) = default;
};

/// Everything that a source knows, in one piece (standalone mode replaces the whole set).
struct ResourceSet {
  std::vector<ModelRoute> routes;
  std::vector<ModelServer> servers;
  std::vector<Pod> pods;
};

}  // namespace warmroute::model
