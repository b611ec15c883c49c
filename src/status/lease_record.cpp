#include "status/lease_record.hpp"

#include "config/json_reader.hpp"
#include "config/resource_json.hpp"

namespace warmroute::status {
namespace {

using config::detail::JsonWriter;

void write_spec(JsonWriter& json, const LeaseRecord& record, Moment now, bool acquired) {
  json.key("spec").begin_object();
  json.key("holderIdentity").text(record.holder);
  json.key("leaseDurationSeconds").number(record.duration_seconds);
  if (acquired) json.key("acquireTime").text(to_micro_time(now));
  json.key("renewTime").text(to_micro_time(now));
  json.key("leaseTransitions").number(record.transitions);
  json.end_object();
}

}  // namespace

Result<LeaseRecord> parse_lease(const std::string& json) {
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  if (const auto error = parser.parse(json).get(root); error != simdjson::SUCCESS)
    return value_error(std::string("not JSON: ") + simdjson::error_message(error));
  std::string problem;
  const config::JsonReader reader(root, problem);
  const auto spec = reader.get("spec");
  LeaseRecord record;
  record.resource_version = reader.get("metadata").get("resourceVersion").text();
  record.holder = spec.get("holderIdentity").text();
  record.renew_time = spec.get("renewTime").text();
  record.duration_seconds = spec.get("leaseDurationSeconds").number().value_or(0);
  record.transitions = spec.get("leaseTransitions").number().value_or(0);
  if (!problem.empty()) return value_error(std::move(problem));
  return record;
}

std::string lease_json(const std::string& ns, const std::string& name, const LeaseRecord& record, Moment now) {
  JsonWriter json;
  json.begin_object().key("apiVersion").text("coordination.k8s.io/v1").key("kind").text("Lease");
  json.key("metadata").begin_object().key("name").text(name).key("namespace").text(ns).end_object();
  write_spec(json, record, now, true);
  return json.end_object().take();
}

std::string lease_patch(const LeaseRecord& record, Moment now, bool acquired) {
  JsonWriter json;
  json.begin_object().key("metadata").begin_object();
  json.key("resourceVersion").text(record.resource_version).end_object();
  write_spec(json, record, now, acquired);
  return json.end_object().take();
}

}  // namespace warmroute::status
