#include "webhook/admission.hpp"

#include <catch2/catch.hpp>

using namespace warmroute::webhook;

namespace {

constexpr const char* json = "application/json";

std::string review_of(const std::string& object) {
  return R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1","dryRun":true,"object":)" +
         object + "}}";
}
Answer route(const std::string& object) { return review("/validate/modelroute", json, review_of(object)); }

}  // namespace

TEST_CASE("The answer is the review as received with its response", "[webhook]") {
  const std::string good = R"({"spec":{"modelName":"m","rules":[{"targetModels":[{"modelServerName":"a"}]}]}})";
  const Answer allowed = route(good);
  CHECK(allowed.status == 200);
  CHECK(allowed.allowed);
  CHECK(allowed.content_type == json);
  CHECK(allowed.body == R"({"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u-1",)"
                        R"("dryRun":true,"object":)" +
                            good + R"(},"response":{"uid":"u-1","allowed":true}})");
  const Answer again = review("/validate/modelroute", json, allowed.body);
  CHECK(again.body == allowed.body);  // a response that is there already is replaced
}

TEST_CASE("Denials have the layout of kthena-router", "[webhook]") {
  CHECK(route(R"({"spec":{"rules":[null]}})")
            .body.find(
                R"("response":{"uid":"u-1","allowed":false,"status":{"metadata":{},"message":"validation failed:\n)"
                R"(  - spec: Required value: either modelName or loraAdapters must be specified\n)"
                R"(  - spec.rules[0]: Invalid value: null: rule must not be nil"}}})") != std::string::npos);
  CHECK(review("/validate/modelserver", json, review_of(R"({"spec":{"workloadSelector":{"pdGroup":{}}}})"))
            .body.find(R"("message":"validation failed:   - spec.workloadSelector.matchLabels: Required value: )"
                       R"(labels must contain at least one label  - spec.workloadSelector.pdGroup.groupKey: )") !=
        std::string::npos);
  CHECK(review("/validate/externalmodelprovider", json, review_of(R"({"spec":{"baseURL":"x"}})"))
            .body.find(R"("message":"validation failed:\n  - spec.baseURL: Invalid value: \"x\": baseURL must use )") !=
        std::string::npos);
}

TEST_CASE("What is no review is 400 with the reason", "[webhook]") {
  const auto refused = [](const char* type, const std::string& body) {
    const Answer answer = review("/validate/modelroute", type, body);
    CHECK(answer.content_type == "text/plain; charset=utf-8");
    return std::to_string(answer.status) + " " + answer.body;
  };
  CHECK(refused("", "{}") == "400 invalid Content-Type, expected application/json, got \n");
  CHECK(refused("application/json; charset=utf-8", "{}") ==
        "400 invalid Content-Type, expected application/json, got application/json; charset=utf-8\n");
  CHECK(refused(json, "{").find("400 failed to decode body: ") == 0);
  CHECK(refused(json, "[]") == "400 failed to decode body: expected an object\n");
  CHECK(refused(json, "{}") == "400 failed to decode body: request: is missing\n");
  CHECK(refused(json, R"({"request":5})") ==
        "400 failed to decode body: request: expected an object, found a number\n");
  CHECK(refused(json, R"({"request":{"uid":"u"}})") == "400 failed to decode modelRoute: request.object is missing\n");
  CHECK(refused(json, review_of(R"({"spec":{"modelName":5}})")) ==
        "400 failed to decode modelRoute: spec.modelName: expected a string, found a number\n");
  CHECK(refused(json, review_of(R"({"spec":{"modelName":"m","rules":[{"targetModels":[{"weight":-1}]}]}})")) ==
        "400 failed to decode modelRoute: spec.rules[0].targetModels[0].weight: expected an integer of 32 bits that is "
        "not negative, found a number\n");
  CHECK(review("/validate/pod", json, review_of("{}")).status == 404);
}
