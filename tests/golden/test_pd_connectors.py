"""vectors/connectors.jsonl: what each connector makes of a request, over sockets, with --compat=kthena. A vector becomes
a record of the form of http/pd.jsonl: pods x-p0, x-d0, x-p1 ... in groups g0, g1 ..., pair 0 with the freer cache."""

import json
import os

import http_replay
import http_rules
import pd_rules
import pytest
import yaml
from support import engine as scripted
from support.router import DEFAULT_CONFIG, SLOW

with open(os.path.join(http_replay.HERE, "vectors/connectors.jsonl"), encoding="utf-8") as _file:
    VECTORS = {v["id"]: v for v in map(json.loads, _file)}
with open(os.path.join(http_replay.HERE, "deviations/connectors.yaml"), encoding="utf-8") as _file:
    DEVIATIONS = yaml.safe_load(_file)
ENTRIES = {e["id"]: e for e in DEVIATIONS["records"]}
GENERAL = ("go-client-headers", "non-stream-include-usage", "hop-by-hop-request", "usage-only-where-known",
           "stream-options-kept", "lone-surrogate-as-sent")
TYPES = (None, "http", "lmcache", "nixl", "mooncake")


def no_such_resource(vector):
    """The resource's schema knows four types; tests/unit/pd/connector_test.cpp asks for the others."""
    return vector["kv_connector_type"] not in TYPES


TO_RUN = [name for name, vector in VECTORS.items() if not no_such_resource(vector)]


def address(role, pair):
    return f"127.0.1.{(10 if role == 'p' else 20) + pair}"


def world(vector, pairs):
    split = vector["connector"] != "none"
    model = json.loads(vector["body"])["model"]
    spec = {"inferenceEngine": vector["engine"], "workloadPort": {"port": 8000},
            "workloadSelector": {"matchLabels": {"app": "x"}}}
    if split:
        spec["workloadSelector"]["pdGroup"] = {"groupKey": "g", "prefillLabels": {"role": "p"},
                                               "decodeLabels": {"role": "d"}}
    if vector["kv_connector_type"]:
        spec["kvConnector"] = {"type": vector["kv_connector_type"]}
    if vector.get("model_server_model"):
        spec["model"] = vector["model_server_model"]
    api = "networking.serving.volcano.sh/v1alpha1"
    out = [{"apiVersion": api, "kind": "ModelServer", "metadata": {"name": "ms", "namespace": "golden"}, "spec": spec},
           {"apiVersion": api, "kind": "ModelRoute", "metadata": {"name": "mr", "namespace": "golden"},
            "spec": {"modelName": model, "rules": [{"name": "r", "targetModels": [{"modelServerName": "ms"}]}]}}]
    for pair in range(pairs):
        for role in "pd" if split else "d":
            out.append({"apiVersion": "v1", "kind": "Pod",
                        "metadata": {"name": f"x-{role}{pair}", "namespace": "golden",
                                     "labels": {"app": "x", "g": f"g{pair}", "role": role}},
                        "status": {"phase": "Running", "podIP": address(role, pair),
                                   "conditions": [{"type": "Ready", "status": "True"}]}})
    return [json.dumps(each) + "\n" for each in out]


def sglang_metrics(usage):
    return f"sglang:token_usage {usage}\nsglang:num_queue_reqs 0\nsglang:num_running_reqs 0\n"


def script(response, together):
    body = response["body"]
    head = f"HTTP/1.1 {response['status']} X\r\n" + "".join(f"{n}: {v}\r\n" for n, v in response["headers"])
    # An error of one of two requests that run together would end the other before it was sent.
    wait = [{"wait_ms": 60 * SLOW}] if together and response["status"] >= 300 else []
    return wait + [{"send": f"{head}Content-Length: {len(body.encode())}\r\n\r\n{body}"}]


def engines(vector, pairs):
    out = {}
    metrics = sglang_metrics if vector["engine"] == "SGLang" else scripted.vllm_metrics
    for pair in range(pairs):
        for role, answers in (("p", vector.get("prefill_responses")), ("d", vector["decode_responses"])):
            if answers:
                out[f"x-{role}{pair}"] = {"addr": address(role, pair) + ":8000",
                                          "metrics": metrics(pair / 2),
                                          "answers": [script(answers[min(pair, len(answers) - 1)],
                                                             vector["connector"] == "sglang")]}
    return out


def plain(text):
    """Names and placeholders of the vectors as those of the records."""
    for role in ("prefill", "decode"):
        for pair in range(5):
            text = text.replace(f"<{role}-{pair} ip>", address(role[0], pair))
    return text.replace('"<room>"', "<int63>")


def saw(request):
    role, _, pair = request["target"].partition("-")
    return {"engine": f"x-{role[0]}{pair}", "request_line": f"{request['method']} {request['uri']} HTTP/1.1",
            "headers": [["Host", request["host"]]] + request["headers"], "body": plain(request["body"])}


def record_of(vector):
    pairs = 1 + max(int(r["target"].rpartition("-")[2]) for r in vector["upstream"])
    request = {"method": vector["method"], "path": vector["uri"], "headers": list(vector["headers"]),
               "body": vector["body"]}
    if vector.get("request_chunked"):
        half = len(vector["body"]) // 2
        request["chunks"] = [vector["body"][:half], vector["body"][half:]]
        request["headers"].append(["Transfer-Encoding", "chunked"])
    else:
        request["headers"].append(["Content-Length", str(len(vector["body"].encode()))])
    client = vector["client"]
    return {"name": vector["id"], "world": world(vector, pairs), "engines": engines(vector, pairs),
            "router": {"config": DEFAULT_CONFIG, "env": {}, "flags": []}, "request": request,
            "together": vector["connector"] == "sglang", "transfers": vector["connector"] in ("nixl", "mooncake"),
            "expect": {"status": client["status"], "ended": "complete", "body": client["body"],
                       "headers": client["headers"] + [["Date", "<date>"]],
                       "engine_saw": [saw(r) for r in vector["upstream"]]}}


def expectation(vector):
    """(what the rules make of the vector, the rules that had something to change)"""
    record = record_of(vector)
    wanted = pd_rules.expectation(record, record["expect"], {})
    wanted.update(counters=None, framing_free=True, log={})
    for rule in GENERAL:
        http_rules.RULES[rule](record, record["request"], wanted)
    hits = {rule for rule, change in pd_rules.VECTOR_RULES.items() if change(record, wanted)}
    wanted["log"] = None
    wanted["headers_free"] = {"x-request-id"}
    return wanted, hits


@pytest.fixture(scope="module")
def runs(request):
    return http_replay.run_selected(request, lambda name: http_replay.run_record(record_of(VECTORS[name]))[0])


@pytest.mark.parametrize("name", TO_RUN)
def test_vector(name, runs):
    got = runs[name]
    if isinstance(got, Exception):
        raise got
    vector = VECTORS[name]
    got = pd_rules.observed(record_of(vector), {**got, "log": None})
    wanted, _ = expectation(vector)
    found = http_rules.differences(wanted, got)
    if name in ENTRIES:
        assert found, f"the deviation of {name} no longer applies: the router answers as recorded"
        found = http_rules.differences(http_rules.apply_override(wanted, ENTRIES[name]["expect"]), got)
    assert not found, "\n".join([vector["note"]] + found)


def test_every_rule_is_listed_and_hits():
    assert {r["name"] for r in DEVIATIONS["rules"]} == set(pd_rules.VECTOR_RULES)
    assert set().union(*(expectation(VECTORS[name])[1] for name in TO_RUN)) == set(pd_rules.VECTOR_RULES)
    assert set(ENTRIES) <= set(TO_RUN)
    assert all(r["decision"] and r["why"] for r in DEVIATIONS["rules"] + DEVIATIONS["records"])


def test_skips_are_counted():
    assert len(VECTORS) - len(TO_RUN) == DEVIATIONS["skips"][0]["counts"]
