#pragma once
// What the webhook refuses beyond the CRDs' schemas (spec kthena-controlplane 11.2). Pure functions over the object as
// it came; paths and texts are those of kthena-router. A field of a wrong type is the reader's problem, not an error.

#include "config/json_reader.hpp"
#include "webhook/field_errors.hpp"

namespace warmroute::webhook {

using config::JsonReader;

/// Header rules in key order (kthena's order is random).
void check_model_route(const JsonReader& object, FieldErrors& errors);
void check_model_server(const JsonReader& object, FieldErrors& errors);
void check_external_model_provider(const JsonReader& object, FieldErrors& errors);

}  // namespace warmroute::webhook
