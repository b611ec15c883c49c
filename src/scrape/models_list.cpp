#include "scrape/models_list.hpp"

#include <simdjson.h>

#include <unordered_set>

namespace warmroute::scrape {

Result<std::vector<std::string>> parse_models_list(std::string_view body) {
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  if (const auto failure = parser.parse(body.data(), body.size()).get(document); failure != simdjson::SUCCESS)
    return Error{Errc::bad_json, Source::engine, Retry::never, simdjson::error_message(failure)};
  simdjson::dom::array data;
  if (document["data"].get(data) != simdjson::SUCCESS)
    return Error{Errc::bad_value, Source::engine, Retry::never, "no list \"data\""};
  std::vector<std::string> models;
  std::unordered_set<std::string_view> seen;  // views into the parser's own buffer
  for (const auto entry : data) {
    std::string_view id;
    if (entry["id"].get(id) == simdjson::SUCCESS && seen.insert(id).second) models.emplace_back(id);
  }
  return models;
}

}  // namespace warmroute::scrape
