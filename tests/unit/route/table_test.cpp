#include "route/table.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

namespace warmroute::route {
namespace {

class Headers final : public HeaderSource {
 public:
  explicit Headers(std::map<std::string, std::string, std::less<>> values) : values_(std::move(values)) {}
  [[nodiscard]] std::string_view first(std::string_view name) const override {
    const auto it = values_.find(name);
    return it == values_.end() ? std::string_view{} : it->second;
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

model::TargetModel target(std::string server, std::optional<std::int32_t> weight = 100) {
  model::TargetModel made;
  made.model_server_name = std::move(server);
  made.weight = weight;
  return made;
}

model::Rule rule(std::vector<std::optional<model::TargetModel>> targets,
                 std::optional<model::ModelMatch> match = std::nullopt) {
  model::Rule made;
  made.targets = std::move(targets);
  made.match = std::move(match);
  return made;
}

model::ModelMatch header(const std::string& name, model::StringMatch value) {
  model::ModelMatch match;
  match.headers[name] = std::move(value);
  return match;
}

struct World {
  std::shared_ptr<model::Snapshot> snapshot = std::make_shared<model::Snapshot>();
  std::vector<std::string> warnings;

  model::ModelRoute& add(std::string name, std::string model, std::vector<std::optional<model::Rule>> rules) {
    auto route = std::make_shared<model::ModelRoute>();
    route->meta.name = std::move(name);
    route->model_name = std::move(model);
    route->rules = std::move(rules);
    snapshot->routes.push_back(route);
    return *route;
  }
  model::ModelServer& server(const std::string& name) {
    auto entry = std::make_shared<model::ServerEntry>();
    entry->key = "default/" + name;
    auto& spec = entry->spec;
    snapshot->servers[entry->key] = std::move(entry);
    return spec;
  }
  std::shared_ptr<const Table> build(const Table* previous = nullptr) {
    return Table::build(snapshot, previous, [this](std::string_view text) { warnings.emplace_back(text); });
  }
};

Match ask(const Table& table, std::string_view model, const HeaderSource* headers = nullptr,
          std::string_view path = "/v1/chat/completions", std::uint64_t drawn = 0) {
  return table.match({model, path, headers}, [drawn] { return drawn; });
}

}  // namespace

TEST_CASE("a base model hides an adapter of the same name") {
  World world;
  world.server("a");
  world.server("b");
  world.add("base", "m", {rule({target("a")})});
  world.add("other", "x", {rule({target("b")})}).lora_adapters = {"m", "lora-1", "lora-1"};
  const auto table = world.build();

  CHECK(ask(*table, "m").server_key == "default/a");
  CHECK_FALSE(ask(*table, "m").lora);
  CHECK(ask(*table, "lora-1").server_key == "default/b");
  CHECK(ask(*table, "lora-1").lora);
  CHECK(ask(*table, "nope").kind == Match::Kind::not_found);
  CHECK(ask(*table, "").kind == Match::Kind::not_found);
  CHECK(table->listed_models() == std::vector<std::string>{"lora-1", "m", "x"});
  CHECK(table->declares("lora-1"));
  CHECK_FALSE(table->declares("lora-2"));
  CHECK(table->declared_name("nope").empty());
  std::string mine = "lora-1";
  CHECK(table->declared_name(mine).data() != mine.data());
}

TEST_CASE("the engine is asked for the server's model, an adapter for its own name") {
  World world;
  world.server("a").model = "real/a";
  world.add("r", "m", {rule({target("a")})}).lora_adapters = {"lora"};
  const auto table = world.build();
  CHECK(upstream_model(ask(*table, "m"), "m") == "real/a");
  CHECK(upstream_model(ask(*table, "lora"), "lora") == "lora");
}

TEST_CASE("string matches: exact before prefix before regex, none matches everything") {
  const auto matches = [](const model::StringMatch& spec, std::string_view value) {
    World world;
    world.server("a");
    world.add("r", "m", {rule({target("a")}, header("x", spec))});
    const Headers headers({{"x", std::string(value)}});
    return ask(*world.build(), "m", &headers).kind == Match::Kind::matched;
  };
  CHECK(matches({"prod", std::nullopt, std::nullopt}, "prod"));
  CHECK_FALSE(matches({"prod", "", "."}, "staging"));
  CHECK(matches({std::nullopt, "/v1/", std::nullopt}, "/v1/chat"));
  CHECK_FALSE(matches({std::nullopt, "/v1/", ".*"}, "/v2/chat"));
  CHECK(matches({std::nullopt, std::nullopt, "^(acme|globex)-prod$"}, "globex-prod"));
  CHECK_FALSE(matches({std::nullopt, std::nullopt, "^(acme|globex)-prod$"}, "initech-prod"));
  CHECK(matches({std::nullopt, std::nullopt, "b+"}, "abba"));
  CHECK_FALSE(matches({std::nullopt, std::nullopt, "^(unclosed"}, "^(unclosed"));
  CHECK(matches({}, "anything"));
}

TEST_CASE("Host and missing headers read as empty") {
  World world;
  world.server("a");
  world.add("r", "m", {rule({target("a")}, header("hOsT", {"", std::nullopt, std::nullopt}))});
  world.add("s", "n", {rule({target("a")}, header("x-none", {std::nullopt, std::nullopt, "^$"}))});
  const auto table = world.build();
  const Headers headers({{"hOsT", "example.com"}});
  CHECK(ask(*table, "m", &headers).kind == Match::Kind::matched);
  CHECK(ask(*table, "n", &headers).kind == Match::Kind::matched);
  CHECK(ask(*table, "n", nullptr).kind == Match::Kind::matched);
}

TEST_CASE("uri and body model are conditions too") {
  World world;
  world.server("a");
  model::ModelMatch match;
  match.uri = model::StringMatch{std::nullopt, "/v1/chat", std::nullopt};
  match.body_model = "lora";
  world.add("r", "m", {rule({target("a")}, match)}).lora_adapters = {"lora"};
  const auto table = world.build();
  CHECK(ask(*table, "lora").kind == Match::Kind::matched);
  CHECK(ask(*table, "m").kind == Match::Kind::not_found);
  CHECK(ask(*table, "lora", nullptr, "/v1/completions").kind == Match::Kind::not_found);
}

TEST_CASE("a rule without right targets passes on to the next route of the model, not to the next rule") {
  std::vector<std::optional<model::TargetModel>> broken;
  SECTION("no targets") {}
  SECTION("a null target") { broken = {target("a"), std::nullopt}; }
  SECTION("some weights missing") { broken = {target("a"), target("a", std::nullopt)}; }
  SECTION("all weights zero") { broken = {target("a", 0), target("a", 0)}; }
  SECTION("a target without backend") { broken = {target("")}; }
  SECTION("a target with two backends") {
    auto both = target("a");
    both.external_provider_name = "p";
    broken = {both};
  }
  World world;
  world.server("a");
  world.server("b");
  world.add("first", "m", {rule(broken), rule({target("a")})});
  world.add("second", "m", {rule({target("b")})});
  const auto table = world.build();
  const auto match = ask(*table, "m");
  CHECK(match.kind == Match::Kind::matched);
  CHECK(match.route_key == "default/second");
  CHECK(match.server_key == "default/b");
}

TEST_CASE("weights share the draws, missing ones count alike") {
  World world;
  for (const auto* name : {"a", "b", "c"}) world.server(name);
  world.add("w", "m", {rule({target("a", 3), target("b", 0), target("c", 1)})});
  world.add("u", "n", {rule({target("a", std::nullopt), target("b", std::nullopt)})});
  const auto table = world.build();
  const auto drawn = [&](std::string_view model, std::uint64_t number) {
    return std::string(ask(*table, model, nullptr, "/", number).server_key);
  };
  for (const std::uint64_t number : {0U, 1U, 2U, 4U}) CHECK(drawn("m", number) == "default/a");
  for (const std::uint64_t number : {3U, 7U}) CHECK(drawn("m", number) == "default/c");
  CHECK(drawn("n", 0) == "default/a");
  CHECK(drawn("n", 1) == "default/b");
}

TEST_CASE("what this build lacks answers not_supported and is logged once") {
  World world;
  world.server("a");
  world.server("pd").pd_group = model::PdGroup{};
  model::TargetModel provider;
  provider.external_provider_name = "openai";
  world.add("limited", "limited", {rule({target("a")})}).rate_limit = model::RateLimit{};
  world.add("external", "external", {rule({provider})});
  world.add("split", "split", {rule({target("pd")})});
  world.add("gone", "gone", {rule({target("gone")})});
  const auto table = world.build();

  CHECK(ask(*table, "limited").kind == Match::Kind::not_supported);
  CHECK(ask(*table, "limited").detail == "ModelRoute default/limited uses rateLimit");
  CHECK(ask(*table, "external").kind == Match::Kind::not_supported);
  CHECK(ask(*table, "external").detail == "ModelRoute default/external uses externalModelProviderName openai");
  CHECK(ask(*table, "split").kind == Match::Kind::matched);
  CHECK(ask(*table, "gone").kind == Match::Kind::server_missing);
  CHECK(ask(*table, "gone").detail == "default/gone");
  CHECK(table->listed_models() == std::vector<std::string>{"limited", "split"});

  CHECK(world.warnings.size() == 2);
  const auto next = world.build(table.get());
  CHECK(world.warnings.size() == 2);
}

TEST_CASE("routes with parentRefs are skipped in default mode") {
  World world;
  world.server("a");
  world.server("b");
  world.add("gateway", "m", {rule({target("a")})}).parent_refs.emplace_back();
  world.add("plain", "m", {rule({target("b")})});
  const auto table = world.build();
  CHECK(ask(*table, "m").server_key == "default/b");
}

TEST_CASE("an invalid expression is logged once, also over snapshots, and again after it was gone") {
  World world;
  world.server("a");
  const model::StringMatch bad{std::nullopt, std::nullopt, "("};
  world.add("r", "m", {rule({target("a")}, header("x", bad)), rule({target("a")}, header("y", bad))});
  auto table = world.build();
  CHECK(world.warnings.size() == 1);
  table = world.build(table.get());
  CHECK(world.warnings.size() == 1);
  CHECK(ask(*table, "m").kind == Match::Kind::not_found);

  World empty;
  table = empty.build(table.get());
  table = world.build(table.get());
  CHECK(world.warnings.size() == 2);
}

}  // namespace warmroute::route
