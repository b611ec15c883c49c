#include "pd/connector.hpp"

#include <catch2/catch.hpp>

namespace warmroute::test {
namespace {

using model::Engine;
using pd::Connector;
using pd::Pairing;

std::string name_for(Engine engine, std::optional<std::string> type) {
  model::ModelServer server;
  server.engine = engine;
  server.kv_connector = std::move(type);
  return std::string(pd::connector_for(server).name());
}

TEST_CASE("the type chooses the connector, else the engine", "[pd]") {
  CHECK(name_for(Engine::vllm, std::nullopt) == "http");
  CHECK(name_for(Engine::sglang, std::nullopt) == "sglang");
  CHECK(name_for(Engine::sglang, "") == "sglang");
  CHECK(name_for(Engine::vllm, "") == "http");
  CHECK(name_for(Engine::sglang, "http") == "http");
  CHECK(name_for(Engine::sglang, "nixl") == "nixl");
  CHECK(name_for(Engine::vllm, "sglang") == "sglang");
  CHECK(name_for(Engine::vllm, "lmcache") == "lmcache");
  CHECK(name_for(Engine::vllm, "mooncake") == "mooncake");
  CHECK(name_for(Engine::vllm, "teleport") == "http");
}

struct Told {
  std::string prefill, decode;
  bool usable = false;
};

Told tell(const Connector& connector, std::string body, std::string answer,
          model::PathLabel path = model::PathLabel::chat_completions) {
  body.reserve(body.size() + 64);
  answer.reserve(answer.size() + 64);
  const pd::BodyMembers members(body);
  const Pairing pairing{"10.0.0.7", 9223372036854775807U};
  std::vector<http::Edit> prefill, decode;
  pd::prefill_edits(connector, members, pairing, path, prefill);
  Told told;
  told.usable = pd::decode_edits(connector, members, pairing, answer, decode);
  for (const auto piece : http::splice(body, prefill)) told.prefill += piece;
  for (const auto piece : http::splice(body, decode)) told.decode += piece;
  return told;
}

const std::string body = R"({"model":"m","stream":true,"max_completion_tokens":9,"stream_options":{}})";

TEST_CASE("http and lmcache change the prefill request only", "[pd]") {
  for (const auto* connector : {&pd::http_connector(), &pd::lmcache_connector()}) {
    const auto told = tell(*connector, body, "");
    CHECK(told.prefill == R"({"max_tokens":1,"model":"m","max_completion_tokens":1})");
    CHECK(told.decode == body);
    CHECK(told.usable);
    CHECK(connector->order() == pd::Order::prefill_first);
    CHECK_FALSE(connector->reads_answer());
  }
}

TEST_CASE("max_completion_tokens is touched only when it has a value", "[pd]") {
  CHECK(tell(pd::http_connector(), R"({"max_completion_tokens":null})", "").prefill ==
        R"({"max_tokens":1,"max_completion_tokens":null})");
}

TEST_CASE("the limit of the Responses API is 1 for the prefill pod too, given or not", "[pd]") {
  const auto& http = pd::http_connector();
  const auto path = model::PathLabel::responses;
  CHECK(tell(http, R"({"input":"x","max_output_tokens":900})", "", path).prefill ==
        R"({"max_tokens":1,"input":"x","max_output_tokens":1})");
  CHECK(tell(http, R"({"max_output_tokens":null,"input":"x"})", "", path).prefill ==
        R"({"max_tokens":1,"max_output_tokens":1,"input":"x"})");
  const auto told = tell(http, R"({"input":"x"})", "", path);
  CHECK(told.prefill == R"({"max_tokens":1,"max_output_tokens":1,"input":"x"})");
  CHECK(told.decode == R"({"input":"x"})");
  CHECK(tell(http, R"({"prompt":"x"})", "").prefill == R"({"max_tokens":1,"prompt":"x"})");
}

TEST_CASE("nixl and mooncake hand the prefill answer's parameters to decode as they are", "[pd]") {
  for (const auto* connector : {&pd::nixl_connector(), &pd::mooncake_connector()}) {
    CHECK(connector->reads_answer());
    const auto told = tell(*connector, body, R"({"id":"p","kv_transfer_params": {"b":[18446744073709551615, 1.0]} })");
    CHECK(told.prefill == R"({"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false},)"
                          R"("model":"m","max_completion_tokens":1})");
    CHECK(told.decode == R"({"kv_transfer_params":{"b":[18446744073709551615, 1.0]},)" + body.substr(1));
    const auto given = tell(*connector, R"({"kv_transfer_params":{"x":1},"a":2})", R"({"kv_transfer_params":7})");
    CHECK(given.prefill ==
          R"({"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false},"a":2})");
    CHECK(given.decode == R"({"kv_transfer_params":7,"a":2})");
    CHECK(tell(*connector, R"({"a":1})", R"({"id":1})").decode == R"({"kv_transfer_params":null,"a":1})");
    CHECK_FALSE(tell(*connector, body, "no json").usable);
    CHECK_FALSE(tell(*connector, body, "").usable);
  }
}

TEST_CASE("sglang sends both to one room at the prefill pod", "[pd]") {
  const auto& connector = pd::sglang_connector();
  CHECK(connector.order() == pd::Order::together);
  const auto told = tell(connector, R"({"a":1,"bootstrap_room":3,"bootstrap_port":9})", "");
  CHECK(told.prefill == R"({"max_tokens":1,"a":1,"bootstrap_room":9223372036854775807,"bootstrap_port":9})");
  CHECK(told.decode ==
        R"({"bootstrap_host":"10.0.0.7","a":1,"bootstrap_room":9223372036854775807,"bootstrap_port":9})");
}

}  // namespace
}  // namespace warmroute::test
