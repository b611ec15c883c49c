// ModelRoute matching against what the Go router answered (vectors/routing.jsonl). Frequencies of weighted draws are
// compared with a tolerance; everything else exactly.
#include <simdjson.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "route/table.hpp"

namespace warmroute {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr int our_draws = 3000;
constexpr double recorded_draws = 20000;
constexpr double tolerance = 0.04;  // over four standard deviations of our draws and theirs together

/// Named rules of the deviations file and how often each changed an expectation.
struct Deviations {
  std::map<std::string, int> rules;
  std::map<std::string, YAML::Node> records;
  std::set<std::string> records_used;

  Deviations() {
    const YAML::Node file = YAML::LoadFile(WR_SOURCE_DIR "/tests/golden/deviations/routing.yaml");
    for (const auto& rule : file["rules"]) rules[rule["name"].as<std::string>()] = 0;
    for (const auto& record : file["records"]) records[record["id"].as<std::string>()] = record["expect"];
  }
  void hit(const std::string& rule) {
    const auto it = rules.find(rule);
    if (it == rules.end()) FAIL("rule " << rule << " is not in the deviations file");
    ++it->second;
  }
};

std::string text(element value) { return std::string(std::string_view(value)); }

std::optional<std::string> optional_text(object parent, const char* key) {
  element value;
  if (parent[key].get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return text(value);
}

std::string text_or(object parent, const char* key, std::string otherwise = "") {
  return optional_text(parent, key).value_or(std::move(otherwise));
}

std::vector<element> items(object parent, const char* key) {
  std::vector<element> found;
  array list;
  if (parent[key].get(list) == simdjson::SUCCESS) found.assign(list.begin(), list.end());
  return found;
}

model::StringMatch read_string_match(object spec) {
  return {optional_text(spec, "exact"), optional_text(spec, "prefix"), optional_text(spec, "regex")};
}

model::ModelMatch read_model_match(object spec) {
  model::ModelMatch match;
  object headers, uri, body;
  if (spec["headers"].get(headers) == simdjson::SUCCESS)
    for (const auto& [name, value] : headers)
      match.headers[std::string(name)] =
          value.is_null() ? std::nullopt : std::optional(read_string_match(object(value)));
  if (spec["uri"].get(uri) == simdjson::SUCCESS) match.uri = read_string_match(uri);
  if (spec["body"].get(body) == simdjson::SUCCESS) match.body_model = optional_text(body, "model");
  return match;
}

/// Shares stay the same when all weights of a rule are divided.
std::int64_t weight_divisor(object rule, Deviations& deviations) {
  for (const auto entry : items(rule, "targetModels")) {
    std::int64_t weight = 0;
    if (entry.is_null() || object(entry)["weight"].get(weight) != simdjson::SUCCESS) continue;
    if (weight <= std::numeric_limits<std::int32_t>::max()) continue;
    deviations.hit("weights_fit_int32");
    return 4;
  }
  return 1;
}

model::Rule read_rule(object spec, Deviations& deviations) {
  model::Rule rule;
  rule.name = text_or(spec, "name");
  object match;
  if (spec["modelMatch"].get(match) == simdjson::SUCCESS) rule.match = read_model_match(match);
  const std::int64_t divisor = weight_divisor(spec, deviations);
  for (const auto entry : items(spec, "targetModels")) {
    if (entry.is_null()) {
      rule.targets.emplace_back();
      continue;
    }
    model::TargetModel target;
    target.model_server_name = text_or(entry, "modelServerName");
    target.external_provider_name = text_or(entry, "externalModelProviderName");
    std::int64_t weight = 0;
    if (object(entry)["weight"].get(weight) == simdjson::SUCCESS)
      target.weight = static_cast<std::int32_t>(weight / divisor);
    rule.targets.emplace_back(std::move(target));
  }
  return rule;
}

model::ModelRoute read_route(object spec, Deviations& deviations) {
  model::ModelRoute route;
  object meta, body;
  REQUIRE(spec["metadata"].get(meta) == simdjson::SUCCESS);
  REQUIRE(spec["spec"].get(body) == simdjson::SUCCESS);
  route.meta.ns = text_or(meta, "namespace");
  route.meta.name = text_or(meta, "name");
  route.model_name = text_or(body, "modelName");
  for (const auto adapter : items(body, "loraAdapters")) route.lora_adapters.push_back(text(adapter));
  for (const auto parent : items(body, "parentRefs")) {
    model::ParentRef ref;
    ref.name = text_or(parent, "name");
    route.parent_refs.push_back(std::move(ref));
  }
  for (const auto rule : items(body, "rules"))
    route.rules.push_back(rule.is_null() ? std::nullopt : std::optional(read_rule(object(rule), deviations)));
  return route;
}

/// Applies the record's operations and orders routes as decision 1 says. Creation times have one form and zone, so
/// their texts order like the times; a missing one is the oldest, as Go's zero time.
std::shared_ptr<const model::Snapshot> read_snapshot(object record, Deviations& deviations) {
  auto snapshot = std::make_shared<model::Snapshot>();
  std::map<std::string, std::pair<std::string, model::ModelRoute>> routes;
  for (const auto op : items(record, "ops")) {
    object spec, meta;
    const std::string what = text_or(op, "op");
    if (what == "apply") {
      REQUIRE(object(op)["route"].get(spec) == simdjson::SUCCESS);
      REQUIRE(spec["metadata"].get(meta) == simdjson::SUCCESS);
      auto route = read_route(spec, deviations);
      const auto key = route.meta.key();
      routes.insert_or_assign(key, std::pair(text_or(meta, "creationTimestamp"), std::move(route)));
    } else {
      REQUIRE(what == "delete");
      routes.erase(text_or(op, "name"));  // some name a route that never was
    }
  }
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const model::ModelRoute>> ordered;
  for (auto& [key, route] : routes)
    ordered[{route.first, key}] = std::make_shared<const model::ModelRoute>(std::move(route.second));
  for (auto& [order, route] : ordered) snapshot->routes.push_back(std::move(route));
  for (const auto spec : items(record, "model_servers")) {
    auto entry = std::make_shared<model::ServerEntry>();
    entry->key = text_or(spec, "name");
    entry->spec.model = text_or(spec, "model");
    bool no_pods = false;
    (void)object(spec)["no_pods"].get(no_pods);  // absent means false
    if (!no_pods) entry->pods.emplace_back();
    snapshot->servers[entry->key] = std::move(entry);
  }
  return snapshot;
}

class RecordHeaders final : public route::HeaderSource {
 public:
  explicit RecordHeaders(object request) {
    object headers;
    if (request["headers"].get(headers) != simdjson::SUCCESS) return;
    for (const auto& [name, value] : headers) values_[lower(name)] = text(value);
  }
  [[nodiscard]] std::string_view first(std::string_view name) const override {
    const auto it = values_.find(lower(name));
    return it == values_.end() ? std::string_view{} : it->second;
  }

 private:
  static std::string lower(std::string_view name) {
    std::string out(name);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return out;
  }
  std::map<std::string, std::string> values_;
};

std::string decoded_path(const std::string& target) {
  std::string path;
  for (std::size_t i = 0; i < target.size() && target[i] != '?'; ++i) {
    if (target[i] == '%') {
      path += static_cast<char>(std::stoi(target.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      path += target[i];
    }
  }
  return path;
}

using Shares = std::map<std::string, double>;  ///< outcome -> share of the draws

std::string outcome_key(std::string_view kind, std::string_view target, std::string_view route, bool lora,
                        std::uint64_t rule) {
  return std::string(kind) + " " + std::string(target) + " by " + std::string(route) + (lora ? " lora" : "") +
         " rule " + std::to_string(rule);
}

struct Answer {
  int status = 0;
  std::string server, upstream_model;
  friend auto operator<=>(const Answer&, const Answer&) = default;
};

struct Observed {
  Shares shares;
  std::set<Answer> answers;
  bool declared = false;
};

std::string provider_of(const route::Match& match) {
  const auto space = match.detail.rfind(' ');
  return match.route->meta.ns + "/" + match.detail.substr(space + 1);
}

Observed observe(const route::Table& table, const route::Query& query) {
  Observed observed;
  observed.declared = table.declares(query.model);
  std::mt19937_64 generator(7);
  const auto random = [&generator] { return generator(); };
  for (int i = 0; i < our_draws; ++i) {
    const auto match = table.match(query, random);
    std::string key = "not_found";
    Answer answer{404, "", ""};
    if (match.kind == route::Match::Kind::not_supported) {
      key = outcome_key("ExternalModelProvider", provider_of(match), match.route_key, match.lora, match.rule_index);
      answer.status = 503;
    } else if (match.kind != route::Match::Kind::not_found) {
      key = outcome_key("ModelServer", match.server_key, match.route_key, match.lora, match.rule_index);
    }
    if (match.kind == route::Match::Kind::server_missing) REQUIRE(match.detail == match.server_key);
    if (match.kind == route::Match::Kind::matched) {
      answer.status = match.server->pods.empty() ? 503 : 200;
      if (!match.server->pods.empty())
        answer = {200, match.server->key, std::string(route::upstream_model(match, query.model))};
    }
    observed.shares[key] += 1.0 / our_draws;
    observed.answers.insert(answer);
  }
  return observed;
}

Shares recorded_shares(object request) {
  Shares shares;
  for (const auto outcome : items(request, "outcomes"))
    shares[outcome_key(text_or(outcome, "kind"), text_or(outcome, "target"), text_or(outcome, "route"),
                       bool(object(outcome)["lora"]), std::uint64_t(object(outcome)["rule"]))] =
        double(object(outcome)["draws"]) / recorded_draws;
  object errors;
  if (request["errors"].get(errors) == simdjson::SUCCESS)
    for (const auto& [error, draws] : errors) shares["not_found"] += double(draws) / recorded_draws;
  return shares;
}

Shares expected_shares(const YAML::Node& expect) {
  if (expect["not_found"]) return {{"not_found", 1.0}};
  return {{outcome_key("ModelServer", expect["target"].as<std::string>(), expect["route"].as<std::string>(), false,
                       expect["rule"].as<std::uint64_t>()),
           1.0}};
}

bool close(const Shares& ours, const Shares& theirs) {
  const auto covered = [](const Shares& a, const Shares& b) {
    return std::all_of(a.begin(), a.end(), [&](const auto& entry) {
      const auto it = b.find(entry.first);
      return std::abs(entry.second - (it == b.end() ? 0.0 : it->second)) <= tolerance;
    });
  };
  return covered(ours, theirs) && covered(theirs, ours);
}

void check_answers(object request, const std::string& path, const Observed& observed, Deviations& deviations) {
  if (!path.starts_with("/v1/")) return deviations.hit("path_outside_v1");
  std::set<Answer> expected;
  for (const auto http : items(request, "http")) {
    Answer answer{static_cast<int>(std::int64_t(object(http)["status"])), text_or(http, "server"),
                  text_or(http, "upstream_model")};
    if (text_or(http, "client_body").find("external model provider") != std::string::npos) {
      answer.status = 503;
      deviations.hit("external_provider");
    }
    if (answer.status == 200 && answer.upstream_model.empty()) {
      answer.upstream_model = text_or(request, "model");
      deviations.hit("empty_override_is_absent");
    }
    expected.insert(answer);
  }
  if (expected.empty()) return;  // a recorded panic has no HTTP part
  CHECK(std::includes(expected.begin(), expected.end(), observed.answers.begin(), observed.answers.end()));
  CHECK(std::includes(observed.answers.begin(), observed.answers.end(), expected.begin(), expected.end()));
}

void check_request(const std::string& id, object request, const route::Table& table, const YAML::Node& override_node,
                   Deviations& deviations) {
  const std::string model = text_or(request, "model");
  const std::string path = decoded_path(text_or(request, "path"));
  INFO(id << " model '" << model << "' path " << path);
  if (optional_text(request, "gateway")) return deviations.hit("gateway_mode");
  if (model.empty()) {
    CHECK_FALSE(table.declares(model));
    return deviations.hit("blank_model_is_refused_before");
  }
  const RecordHeaders headers(request);
  const auto observed = observe(table, {model, path, &headers});
  const auto recorded = recorded_shares(request);
  if (override_node.IsDefined()) {
    CHECK(close(observed.shares, expected_shares(override_node)));
    CHECK_FALSE(close(observed.shares, recorded));  // else the entry is stale
    deviations.records_used.insert(id);
    return;
  }
  for (const auto& [key, share] : observed.shares) UNSCOPED_INFO("ours: " << key << " " << share);
  CHECK(close(observed.shares, recorded));
  object errors;
  if (request["errors"].get(errors) == simdjson::SUCCESS)
    for (const auto& [error, draws] : errors)
      CHECK(observed.declared == !std::string_view(error).starts_with("not found route rules"));
  check_answers(request, path, observed, deviations);
}

void check_listed(object record, const route::Table& table, Deviations& deviations) {
  std::vector<std::string> expected;
  for (const auto name : items(record, "listed_models")) expected.push_back(text(name));
  std::vector<std::string> changed = expected;
  std::sort(changed.begin(), changed.end());
  changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
  const auto usable = [&](const std::string& model) {
    for (const auto& route : table.snapshot()->routes) {
      const auto& adapters = route->lora_adapters;
      if (route->model_name != model && std::find(adapters.begin(), adapters.end(), model) == adapters.end()) continue;
      for (const auto& rule : route->rules)
        for (const auto& target : rule ? rule->targets : std::vector<std::optional<model::TargetModel>>{})
          if (target && table.snapshot()->server(route->meta.ns + "/" + target->model_server_name)) return true;
    }
    return false;
  };
  std::erase_if(changed, [&](const std::string& model) { return !usable(model); });
  if (std::erase(changed, "") > 0) deviations.hit("blank_model_is_refused_before");
  if (changed != expected) deviations.hit("listed_once_and_usable");
  CHECK(table.listed_models() == changed);
}

}  // namespace

TEST_CASE("ModelRoute matching answers as recorded", "[golden][route]") {
  Deviations deviations;
  simdjson::dom::parser parser;
  std::ifstream file(WR_SOURCE_DIR "/tests/golden/vectors/routing.jsonl");
  REQUIRE(file);
  int records = 0;
  for (std::string line; std::getline(file, line); ++records) {
    object record;
    REQUIRE(parser.parse(line).get(record) == simdjson::SUCCESS);
    const std::string id = text_or(record, "id");
    CAPTURE(id);
    const auto table = route::Table::build(read_snapshot(record, deviations), nullptr, nullptr);
    check_listed(record, *table, deviations);
    const auto entry = deviations.records.find(id);
    std::size_t index = 0;
    for (const auto request : items(record, "requests")) {
      YAML::Node expect(YAML::NodeType::Undefined);
      if (entry != deviations.records.end() && index < entry->second.size()) expect.reset(entry->second[index]);
      check_request(id, request, *table, expect, deviations);
      ++index;
    }
  }
  CHECK(records == 118);
  for (const auto& [rule, hits] : deviations.rules) {
    INFO("rule " << rule << " no longer applies");
    CHECK(hits > 0);
  }
  for (const auto& [id, expect] : deviations.records) {
    INFO("entry " << id << " no longer applies");
    CHECK(deviations.records_used.contains(id));
  }
}

}  // namespace warmroute
