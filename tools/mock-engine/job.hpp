#pragma once
// What a generating request asks for, read from its JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine.hpp"
#include "request.hpp"

namespace warmroute::mock {

enum class Kind : std::uint8_t { chat, completions, responses, messages, embeddings, rerank, score, tokenize, count };

struct Job {
  Kind kind = Kind::chat;
  std::string id;
  std::string model;
  std::int64_t created = 0;
  bool stream = false;
  bool include_usage = false;
  std::vector<std::string> prompts;  ///< rendered, about 4 bytes a token; one but for lists
  std::size_t tokens = 0;            ///< generated per choice
  bool limited = false;              ///< the request's own limit ended the answer
  std::size_t choices = 1;           ///< n times the number of prompts
  std::string tool_name;             ///< non-empty: answer with a call of this tool
  std::string tool_arguments;        ///< JSON object
  std::string room;                  ///< connector sglang: where the two engines meet
  std::string bootstrap_host;        ///< likewise, of a decode request
  bool remote_cache = false;         ///< a decode request whose prompt was computed by a prefill engine
  std::string protocol_error;        ///< why the request was refused, if for its part in a pair
  bool base64 = false;               ///< embeddings encoding
  std::size_t dimensions = 8;
  std::size_t top_n = 0;  ///< rerank; 0: all
  std::string query;      ///< rerank and score
  std::vector<std::string> documents;
};

/// The kind served under this path, if any.
[[nodiscard]] std::optional<Kind> kind_of(std::string_view path);
/// Fills `job`; otherwise the error to answer.
[[nodiscard]] std::optional<Reply> read_job(Kind kind, const Request& request, const Engine& engine, Job& job);

}  // namespace warmroute::mock
