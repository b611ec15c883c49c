// Answers that generate nothing: embeddings, rerank, score, tokenize, count_tokens.

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "answer.hpp"
#include "text.hpp"

namespace warmroute::mock {
namespace {

/// Depends on the text and on nothing else; length 1.
std::vector<float> embedding(std::string_view text, std::size_t dimensions) {
  std::vector<float> vector(dimensions);
  double square = 0;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const auto hash = XXH3_64bits_withSeed(text.data(), text.size(), i) >> 40U;
    vector[i] = static_cast<float>(static_cast<double>(hash) / 8388608.0 - 1.0);
    square += static_cast<double>(vector[i]) * static_cast<double>(vector[i]);
  }
  const double length = std::sqrt(square);
  for (auto& value : vector) value = length > 0 ? static_cast<float>(static_cast<double>(value) / length) : 1.0F;
  return vector;
}

std::string vector_json(const std::vector<float>& vector, bool encoded) {
  if (encoded) {
    std::string bytes;
    for (const float value : vector)
      for (unsigned shift = 0; shift < 32; shift += 8)
        bytes += static_cast<char>((std::bit_cast<std::uint32_t>(value) >> shift) & 0xFFU);
    return json_string(base64(bytes));
  }
  return fmt::format("[{}]", fmt::join(vector, ","));
}

std::set<std::string, std::less<>> words(std::string_view text) {
  std::set<std::string, std::less<>> out;
  while (!text.empty()) {
    const auto end = text.find_first_of(" \t\r\n.,;:!?");
    if (end != 0) out.emplace(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return out;
}

/// The share of the query's words that the document has.
double relevance(std::string_view query, std::string_view document) {
  const auto wanted = words(query);
  const auto present = words(document);
  if (wanted.empty()) return 0;
  const auto hits = std::count_if(wanted.begin(), wanted.end(), [&](const auto& w) { return present.contains(w); });
  return static_cast<double>(hits) / static_cast<double>(wanted.size());
}

std::string usage_json(const Usage& u) {
  return fmt::format(R"({{"prompt_tokens":{0},"total_tokens":{0},"completion_tokens":0,)"
                     R"("prompt_tokens_details":{{"cached_tokens":{1}}}}})",
                     u.prompt_tokens, u.cached_tokens);
}

std::string embeddings_json(const Job& job, const Usage& usage) {
  std::string data;
  for (std::size_t i = 0; i < job.prompts.size(); ++i)
    data += fmt::format(R"({}{{"index":{},"object":"embedding","embedding":{}}})", i > 0 ? "," : "", i,
                        vector_json(embedding(job.prompts[i], job.dimensions), job.base64));
  return fmt::format(R"({{"id":"{}","object":"list","created":{},"model":{},"data":[{}],"usage":{}}})", job.id,
                     job.created, json_string(job.model), data, usage_json(usage));
}

std::string rerank_json(const Job& job, const Usage& usage) {
  std::vector<double> scores;
  for (const auto& document : job.documents) scores.push_back(relevance(job.query, document));
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
  if (job.top_n > 0 && job.top_n < order.size()) order.resize(job.top_n);
  std::string results;
  for (const auto i : order)
    results += fmt::format(R"({}{{"index":{},"document":{{"text":{}}},"relevance_score":{}}})",
                           results.empty() ? "" : ",", i, json_string(job.documents[i]), scores[i]);
  return fmt::format(R"({{"id":"{}","model":{},"usage":{},"results":[{}]}})", job.id, json_string(job.model),
                     usage_json(usage), results);
}

std::string score_json(const Job& job, const Usage& usage) {
  std::string data;
  for (std::size_t i = 0; i < job.documents.size(); ++i)
    data += fmt::format(R"({}{{"index":{},"object":"score","score":{}}})", i > 0 ? "," : "", i,
                        relevance(job.query, job.documents[i]));
  return fmt::format(R"({{"id":"{}","object":"list","created":{},"model":{},"data":[{}],"usage":{}}})", job.id,
                     job.created, json_string(job.model), data, usage_json(usage));
}

std::string tokenize_json(const Job& job) {
  std::string ids;
  std::size_t count = 0;
  const std::string& prompt = job.prompts.front();
  for (std::size_t at = 0; at < prompt.size(); at += 4, ++count) {
    const auto bytes = std::string_view(prompt).substr(at, 4);
    ids += fmt::format("{}{}", count > 0 ? "," : "", XXH3_64bits(bytes.data(), bytes.size()) % 128000);
  }
  return fmt::format(R"({{"count":{},"max_model_len":131072,"tokens":[{}],"token_strs":null}})", count, ids);
}

}  // namespace

std::string whole_pooling(const Job& job, const Usage& usage) {
  switch (job.kind) {
    case Kind::embeddings:
      return embeddings_json(job, usage);
    case Kind::rerank:
      return rerank_json(job, usage);
    case Kind::score:
      return score_json(job, usage);
    case Kind::tokenize:
      return tokenize_json(job);
    default:
      return fmt::format(R"({{"input_tokens":{}}})", usage.prompt_tokens);
  }
}

}  // namespace warmroute::mock
