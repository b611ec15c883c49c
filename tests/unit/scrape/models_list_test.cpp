#include "scrape/models_list.hpp"

#include <catch2/catch.hpp>

namespace warmroute::scrape {

TEST_CASE("ids of /v1/models, each once") {
  const auto models = parse_models_list(
      R"({"object":"list","data":[{"id":"base"},{"id":"lora-1","parent":"base"},{"id":"base"},{"id":7},{},null,"x"]})");
  REQUIRE(models.has_value());
  CHECK(*models == std::vector<std::string>{"base", "lora-1"});
  CHECK(parse_models_list(R"({"data":[]})")->empty());
}

TEST_CASE("what is no list says nothing about the models") {
  for (const auto* body :
       {"", "{", "[]", "{}", R"({"data":null})", R"({"data":{}})", "<html>", R"({"data":[{"id":"a"})"})
    CHECK(parse_models_list(body).has_error());
}

}  // namespace warmroute::scrape
