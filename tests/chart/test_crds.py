"""The CRDs are those that clusters with kthena have, field by field, and conditions in the status of routes and servers."""

import pytest
import yaml
from support.helm import CHART

TEXT, NUMBER, TRUTH, MAP, LIST, OBJECT = "string", "integer", "boolean", "map", "array", "object"
DNS = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"{DNS}(\.{DNS})*"
LABEL = {"minLength": 1, "maxLength": 63, "pattern": f"^{DNS}$"}
PORT = {"minimum": 1, "maximum": 65535, "format": "int32"}
LIMIT = {"minimum": 1, "format": "int32"}
MATCH = {part: (TEXT, {}) for part in ("exact", "prefix", "regex")}


def under(path, fields):
    return {f"{path}.{name}": field for name, field in fields.items()}


def conditions(keyed):
    by_type = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]} if keyed else {}
    return {
        "status": (OBJECT, {}),
        "status.conditions": (LIST, by_type),
        "status.conditions[]": (OBJECT, {"required": ["lastTransitionTime", "message", "reason", "status", "type"]}),
        "status.conditions[].type": (TEXT, {
            "maxLength": 316, "pattern": rf"^({SUBDOMAIN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"}),
        "status.conditions[].status": (TEXT, {"enum": ["True", "False", "Unknown"]}),
        "status.conditions[].observedGeneration": (NUMBER, {"minimum": 0, "format": "int64"}),
        "status.conditions[].lastTransitionTime": (TEXT, {"format": "date-time"}),
        "status.conditions[].reason": (TEXT, {"minLength": 1, "maxLength": 1024,
                                              "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}),
        "status.conditions[].message": (TEXT, {"maxLength": 32768})}


RULES = "spec.rules[]"
TARGETS = RULES + ".targetModels[]"
MODEL_ROUTE = {
    "": (OBJECT, {"required": ["spec"]}),
    "spec": (OBJECT, {"required": ["rules"], "rules": ["ModelName and LoraAdapters cannot both be empty"]}),
    "spec.modelName": (TEXT, {"rules": ["modelName is immutable"]}),
    "spec.loraAdapters": (LIST, {"maxItems": 10}),
    "spec.loraAdapters[]": (TEXT, {}),
    "spec.parentRefs": (LIST, {}),
    "spec.parentRefs[]": (OBJECT, {"required": ["name"]}),
    **under("spec.parentRefs[]", {
        "group": (TEXT, {"default": "gateway.networking.k8s.io", "maxLength": 253, "pattern": f"^$|^{SUBDOMAIN}$"}),
        "kind": (TEXT, {"default": "Gateway", "minLength": 1, "maxLength": 63,
                        "pattern": "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"}),
        "namespace": (TEXT, LABEL),
        "name": (TEXT, {"minLength": 1, "maxLength": 253}),
        "sectionName": (TEXT, {"minLength": 1, "maxLength": 253, "pattern": f"^{SUBDOMAIN}$"}),
        "port": (NUMBER, PORT)}),
    "spec.rules": (LIST, {"maxItems": 16}),
    RULES: (OBJECT, {"required": ["targetModels"]}),
    **under(RULES, {
        "name": (TEXT, {}),
        "modelMatch": (OBJECT, {}),
        "modelMatch.headers": (MAP, {}),
        "modelMatch.headers{}": (OBJECT, {}),
        **under("modelMatch.headers{}", MATCH),
        "modelMatch.uri": (OBJECT, {}),
        **under("modelMatch.uri", MATCH),
        "modelMatch.body": (OBJECT, {}),
        "modelMatch.body.model": (TEXT, {}),
        "targetModels": (LIST, {"minItems": 1, "maxItems": 16})}),
    TARGETS: (OBJECT, {"rules": ["exactly one of modelServerName or externalModelProviderName must be set"]}),
    **under(TARGETS, {
        "modelServerName": (TEXT, {}),
        "externalModelProviderName": (TEXT, {}),
        "weight": (NUMBER, {"default": 100, "minimum": 0, "maximum": 100, "format": "int32"})}),
    "spec.rateLimit": (OBJECT, {"required": ["unit"]}),
    **under("spec.rateLimit", {
        "inputTokensPerUnit": (NUMBER, LIMIT),
        "outputTokensPerUnit": (NUMBER, LIMIT),
        "unit": (TEXT, {"default": "second", "enum": ["second", "minute", "hour", "day", "month"]}),
        "global": (OBJECT, {}),
        "global.redis": (OBJECT, {"required": ["address"]}),
        "global.redis.address": (TEXT, {})}),
    **conditions(keyed=True)}

SELECTOR = "spec.workloadSelector"
MODEL_SERVER = {
    "": (OBJECT, {}),
    "spec": (OBJECT, {"required": ["inferenceEngine", "workloadSelector"]}),
    "spec.model": (TEXT, {"maxLength": 256}),
    "spec.inferenceEngine": (TEXT, {"enum": ["vLLM", "SGLang"]}),
    SELECTOR: (OBJECT, {}),
    **under(SELECTOR, {
        "matchLabels": (MAP, {}), "matchLabels{}": (TEXT, {}),
        "pdGroup": (OBJECT, {"required": ["decodeLabels", "groupKey", "prefillLabels"]}),
        "pdGroup.groupKey": (TEXT, {}),
        "pdGroup.prefillLabels": (MAP, {}), "pdGroup.prefillLabels{}": (TEXT, {}),
        "pdGroup.decodeLabels": (MAP, {}), "pdGroup.decodeLabels{}": (TEXT, {})}),
    "spec.workloadPort": (OBJECT, {"required": ["port"]}),
    "spec.workloadPort.port": (NUMBER, PORT),
    "spec.workloadPort.protocol": (TEXT, {"default": "http", "enum": ["http", "https"]}),
    "spec.trafficPolicy": (OBJECT, {}),
    "spec.trafficPolicy.timeout": (TEXT, {}),
    "spec.trafficPolicy.retry": (OBJECT, {}),
    "spec.trafficPolicy.retry.attempts": (NUMBER, {"format": "int32"}),
    "spec.trafficPolicy.retry.retryInterval": (TEXT, {"default": "100ms"}),
    "spec.kvConnector": (OBJECT, {}),
    "spec.kvConnector.type": (TEXT, {"default": "http", "enum": ["http", "lmcache", "nixl", "mooncake"]}),
    **conditions(keyed=True)}

EXTERNAL_MODEL_PROVIDER = {
    "": (OBJECT, {}),
    "spec": (OBJECT, {"required": ["baseURL"]}),
    "spec.providerType": (TEXT, {"default": "OpenAI", "enum": ["OpenAI", "Anthropic"]}),
    "spec.model": (TEXT, {"maxLength": 256}),
    "spec.baseURL": (TEXT, {"minLength": 1, "pattern": "^https://.+"}),
    "spec.insecureSkipVerify": (TRUTH, {"default": False}),
    "spec.auth": (OBJECT, {"required": ["secretRef"], "rules": ["secretRef.optional must be false or unset"]}),
    "spec.auth.scheme": (TEXT, {"enum": ["Bearer", "APIKey"]}),
    "spec.auth.secretRef": (OBJECT, {"required": ["key"], "x-kubernetes-map-type": "atomic"}),
    "spec.auth.secretRef.name": (TEXT, {"default": ""}),
    "spec.auth.secretRef.key": (TEXT, {}),
    "spec.auth.secretRef.optional": (TRUTH, {}),
    "spec.headers": (MAP, {}), "spec.headers{}": (TEXT, {}),
    "status.observedGeneration": (NUMBER, {"format": "int64"}),
    **conditions(keyed=False)}


def flatten(schema, path, out):
    """{path: (type, everything else that binds)}; [] are a list's items, {} a map's values."""
    rest = {key: value for key, value in schema.items()
            if key not in ("type", "properties", "items", "additionalProperties", "description")}
    if "required" in rest:
        rest["required"] = sorted(rest["required"])
    if "x-kubernetes-validations" in rest:
        rest["rules"] = [rule["message"] for rule in rest.pop("x-kubernetes-validations")]
    out[path] = MAP if "additionalProperties" in schema else schema["type"], rest
    for name, child in schema.get("properties", {}).items():
        flatten(child, f"{path}.{name}".lstrip("."), out)
    if "items" in schema:
        flatten(schema["items"], path + "[]", out)
    if "additionalProperties" in schema:
        flatten(schema["additionalProperties"], path + "{}", out)
    return out


@pytest.mark.parametrize("plural, kind, fields, columns", [
    ("modelroutes", "ModelRoute", MODEL_ROUTE, {"Age": ".metadata.creationTimestamp"}),
    ("modelservers", "ModelServer", MODEL_SERVER, {
        "Engine": ".spec.inferenceEngine", "Port": ".spec.workloadPort.port",
        "Protocol": ".spec.workloadPort.protocol", "Age": ".metadata.creationTimestamp"}),
    ("externalmodelproviders", "ExternalModelProvider", EXTERNAL_MODEL_PROVIDER, {}),
])
def test_crd(plural, kind, fields, columns):
    crd = yaml.safe_load((CHART / f"crds/{plural}.yaml").read_text(encoding="utf-8"))
    assert crd["metadata"]["name"] == f"{plural}.networking.serving.volcano.sh"
    spec = crd["spec"]
    assert (spec["group"], spec["scope"]) == ("networking.serving.volcano.sh", "Namespaced")
    assert spec["names"] == {"kind": kind, "listKind": kind + "List", "plural": plural, "singular": kind.lower()}
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"], version["subresources"]) == (
        "v1alpha1", True, True, {"status": {}})
    assert {c["name"]: c["jsonPath"] for c in version.get("additionalPrinterColumns", [])} == columns
    usual = {"apiVersion": (TEXT, {}), "kind": (TEXT, {}), "metadata": (OBJECT, {})}
    assert flatten(version["schema"]["openAPIV3Schema"], "", {}) == {**usual, **fields}
