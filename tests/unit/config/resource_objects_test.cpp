#include "config/resource_objects.hpp"

#include <catch2/catch.hpp>

#include "config/yaml_reader.hpp"

namespace warmroute::config {

TEST_CASE("objects of the API server are read by the readers of the documents") {
  Diagnostics found;
  const auto route = model_route_of(
      R"({"apiVersion":"networking.serving.volcano.sh/v1alpha1","kind":"ModelRoute","metadata":{"name":"r",)"
      R"("namespace":"ns","resourceVersion":"7","creationTimestamp":"2026-01-02T03:04:05Z","generation":3,)"
      R"("managedFields":[{"fieldsV1":{"f:spec":{}}}]},"spec":{"modelName":"m\u00e9\ud83d\ude00\"","rules":[)"
      R"({"targetModels":[{"modelServerName":"s","weight":30},{"modelServerName":"t"}]}]},"status":{}})",
      found);
  REQUIRE(found.empty());
  REQUIRE(route);
  CHECK(route->meta.key() == "ns/r");
  CHECK(route->meta.resource_version.empty());
  CHECK(route->meta.creation_timestamp == 1767323045);
  CHECK(route->model_name == "m\xc3\xa9\xf0\x9f\x98\x80\"");
  CHECK(route->rules[0]->targets[0]->weight == 30);
  CHECK(route->rules[0]->targets[1]->weight == 100);

  const auto server = model_server_of(
      R"({"metadata":{"name":"s","namespace":"ns"},"spec":{"inferenceEngine":"vLLM","workloadPort":{"port":8000},)"
      R"("workloadSelector":{"matchLabels":{"app":"a"}},"trafficPolicy":{"timeout":"30s"}}})",
      found);
  REQUIRE(server);
  CHECK(server->port == 8000);
  CHECK(server->selector == model::Labels{{"app", "a"}});
  CHECK(server->timeout == std::chrono::seconds(30));

  const auto pod =
      pod_of(R"({"metadata":{"name":"p","namespace":"ns","uid":"u","deletionTimestamp":"2026-01-02T03:04:05Z"},)"
             R"("spec":{"nodeName":"n"},"status":{"phase":"Running","podIP":"fd00::7","conditions":[)"
             R"({"type":"Ready","status":"True"}]}})",
             found);
  REQUIRE(pod);
  CHECK(pod->ip == "fd00::7");
  CHECK_FALSE(pod->ready);
  CHECK(found.empty());
}

TEST_CASE("a pod of a cluster is ready when somebody said so, not by default") {
  const auto ready = [](const std::string& status) {
    Diagnostics found;
    const auto pod =
        pod_of(R"({"metadata":{"name":"p","namespace":"ns"},"status":{"podIP":"10.0.0.1")" + status + "}}", found);
    REQUIRE(pod);
    return pod->ready;
  };
  const std::string yes = R"("conditions":[{"type":"PodScheduled","status":"True"},{"type":"Ready","status":"True"}])";
  CHECK(ready(R"(,"phase":"Running",)" + yes));
  CHECK_FALSE(ready(R"(,"phase":"Running")"));
  CHECK_FALSE(ready(R"(,"phase":"Running","conditions":[{"type":"PodScheduled","status":"True"}])"));
  CHECK_FALSE(ready(R"(,"phase":"Running","conditions":[{"type":"Ready","status":"Unknown"}])"));
  CHECK_FALSE(ready(R"(,"phase":"Succeeded",)" + yes));
  CHECK_FALSE(ready("," + yes));
  CHECK_FALSE(ready(""));
}

TEST_CASE("what is wrong with an object is told with its kind and name") {
  Diagnostics found;
  CHECK_FALSE(model_server_of(R"({"metadata":{"name":"s","namespace":"ns"},"spec":{"inferenceEngine":"vLLM",)"
                              R"("workloadPort":{"port":70000},"workloadSelector":{"matchLabels":{"app":"a"}}}})",
                              found));
  REQUIRE(found.size() == 1);
  CHECK(found[0].text() == "ModelServer ns/s: spec.workloadPort.port: must be between 1 and 65535, got 70000");
  for (const std::string& wrong : {std::string(), std::string("{"), std::string("null"), std::string("[]"),
                                   std::string("{\"metadata\":{}}"), std::string(100, '[') + std::string(100, ']')}) {
    found.clear();
    CHECK_FALSE(pod_of(wrong, found));
    CHECK(has_errors(found));
  }
}

TEST_CASE("JSON and YAML of the same values read the same") {
  Diagnostics found;
  const auto file = YamlFile::parse_json(
      R"({"i":12,"big":1e3,"n":null,"t":true,"s":"12","l":[1,"x"],"m":{"managedFields":1,"a":-0.5}})", "j", found);
  REQUIRE(file.valid());
  const YamlNode& root = file.documents().front();
  CHECK(root.get("i").integer() == 12);
  CHECK(root.get("big").integer() == 1000);
  CHECK(root.get("n").is_null());
  CHECK(root.get("t").boolean() == true);
  CHECK(root.get("s").strict_text() == "12");
  CHECK(root.get("m").get("a").number() == -0.5);
  CHECK(root.get("m").get("managedFields").is_absent());
  CHECK(root.get("l").items().size() == 2);
  CHECK(found.empty());
  CHECK_FALSE(root.get("i").strict_text());
  CHECK(has_errors(found));
}

}  // namespace warmroute::config
