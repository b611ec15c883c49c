#include "config/resource_json.hpp"
#include "webhook/label_rules.hpp"
#include "webhook/rules.hpp"

namespace warmroute::webhook {
namespace {

std::string shown(const model::Labels& labels) {
  config::detail::JsonWriter json;
  json.begin_object();
  for (const auto& [key, value] : labels) json.key(key).text(value);
  return json.end_object().take();
}

void check_labels(const JsonReader& field, FieldErrors& errors) {
  model::Labels labels;
  for (const auto& [key, value] : field.entries()) labels.insert_or_assign(key, value.text());
  if (labels.empty()) return errors.required(field.path(), "labels must contain at least one label");
  if (const auto problem = selector_problem(labels))
    errors.invalid(field.path(), shown(labels), "invalid selector: " + *problem);
}

}  // namespace

void check_model_server(const JsonReader& object, FieldErrors& errors) {
  const JsonReader selector = object.get("spec").get("workloadSelector");
  if (!selector) return errors.required(selector.path(), "workloadSelector must be specified");
  check_labels(selector.get("matchLabels"), errors);
  const JsonReader group = selector.get("pdGroup");
  if (!group) return;
  const JsonReader key = group.get("groupKey");
  if (key.text().empty()) errors.required(key.path(), "groupKey must be specified");
  check_labels(group.get("prefillLabels"), errors);
  check_labels(group.get("decodeLabels"), errors);
}

}  // namespace warmroute::webhook
