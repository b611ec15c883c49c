"""http/debug.jsonl, and the metrics after the recorded mix of requests (metrics.txt, metrics-names.tsv)."""

import json
import os
import re

import http_replay
import http_rules
import pytest
import yaml
from support.engine import DEFAULT_METRICS, Engine
from support.router import Router, metric_types, parse_metrics
from support.slots import Slot

with open(os.path.join(http_replay.HERE, "deviations/http.yaml"), encoding="utf-8") as _file:
    DEVIATIONS = yaml.safe_load(_file)
with open(os.path.join(http_replay.DATA, "metrics-mix.json"), encoding="utf-8") as _file:
    MIX = json.load(_file)
with open(os.path.join(http_replay.DATA, "metrics.txt"), encoding="utf-8") as _file:
    RECORDED = _file.read()
DEBUG = http_replay.load("debug.jsonl")
ENTRIES = {e["id"]: e for e in DEVIATIONS["debug"]}
LATER = {"m-rl"}  # rate limits are not built yet
LATER_FAMILIES = re.compile(
    r"kthena_router_(fairness_|session_boost_|kvcache_|tokenizer_|rate_limit_)")


def names():
    with open(os.path.join(http_replay.DATA, "metrics-names.tsv"), encoding="utf-8") as file:
        header = next(file).rstrip("\n").split("\t")
        return [dict(zip(header, line.rstrip("\n").split("\t"))) for line in file]


@pytest.fixture(scope="module", name="mixed")
def _mixed():
    """A router that has served the recorded mix, kept for the debug pages; with the answers' statuses."""
    slot = Slot(one_digit=True)
    mix = http_replay.rewrite(MIX, slot)
    ips = {}
    for text in mix["world"]:
        doc = yaml.safe_load(text)
        if doc["kind"] == "Pod":
            ips[doc["metadata"]["name"]] = doc["status"]["podIP"]
    engines = {}
    for name, ip in ips.items():
        if name != "refuse-1":
            scrape = mix["engines_scrape"].get(ip, {})
            engines[name] = Engine(ip, 8000, metrics=scrape.get("metrics", DEFAULT_METRICS),
                                   models=scrape.get("models", http_replay.DEFAULTS["engine_models"]), name=name)
    statuses = []
    with Router("---\n".join(mix["world"]), http_replay.DEFAULTS["router_config"], ["--compat=kthena"],
                slot=slot) as router:
        for step in mix["mix"]:
            for name, script in step["engines"].items():
                engines[name].answers = [script]
            response, _ = http_replay.play_request(router, step["request"])
            statuses.append((step, response.status))
        router.wait_log(25)
        yield router, statuses, slot
    for engine in engines.values():
        engine.stop()
    slot.release()


def later(step):
    return any(f'"model":"{m}"' in step["request"].get("body", "") for m in LATER)


def test_mix_statuses(mixed):
    for step, status in mixed[1]:
        if later(step):
            assert status == 503  # not_supported (decisions 2)
        elif step["status"] == 503 and '"model":"m-a"' in step["request"]["body"]:
            assert status == 500  # the engine's own answer (decision 3.3)
        else:
            assert status == step["status"], step["request"]


def comparable(samples):
    """Series of this build's features whose values do not depend on time: counters, gauges and counts."""
    out = {}
    for (name, labels), value in samples.items():
        values = dict(labels)
        if not name.startswith("kthena_router_") or LATER_FAMILIES.match(name) or name.endswith(("_sum", "_bucket")):
            continue
        if values.get("model") in LATER or any("mr-rl" in v for v in values.values()):
            continue
        if name != "kthena_router_prefix_cache_entries":
            out[name, labels] = value
    return out


def moved(samples, name, **change):
    """Takes a series away and puts it back with other labels; each (old, new) pair of labels must be there."""
    out, hits = {}, 0
    for (sample, labels), value in samples.items():
        values = dict(labels)
        if sample == name and all(values.get(k) == old for k, (old, _) in change.items()):
            values.update({k: new for k, (_, new) in change.items()})
            hits += 1
        out[sample, tuple(sorted(values.items()))] = value
    assert hits == 1, (name, change, hits)
    return out


def test_series_after_the_mix(mixed):
    expected = comparable(parse_metrics(RECORDED))
    # decision 3.3: the engine's 500 is relayed
    expected = moved(expected, "kthena_router_requests_total", model=("m-a", "m-a"), status_code=("503", "500"),
                     error_type=("proxy", "upstream_response"))
    expected = moved(expected, "kthena_router_request_duration_seconds_count", model=("m-a", "m-a"),
                     status_code=("503", "500"))
    expected = moved(expected, "kthena_router_requests_total", model=("m-pd", "m-pd"), status_code=("500", "500"),
                     error_type=("request_failed", "upstream_response"))
    # decision 3.17: a request refused while parsing counts
    refused = {"backend_name": "none", "backend_type": "unresolved", "model": "unknown", "model_route": "none",
               "path": "/v1/chat/completions", "status_code": "400", "upstream_model": "none"}
    expected["kthena_router_request_duration_seconds_count", tuple(sorted(refused.items()))] = 1
    expected["kthena_router_requests_total", tuple(sorted({**refused, "error_type": "request_parsing"}.items()))] = 1
    got = comparable(mixed[0].metrics())
    known = {name for name, _ in expected}
    got = {key: value for key, value in got.items() if key[0] in known}  # families of our own are free
    assert got == expected


def test_families_have_the_recorded_types_labels_and_buckets(mixed):
    text = mixed[0].metrics_text()
    types, samples = metric_types(text), parse_metrics(text)
    checked = 0
    for row in names():
        name = row["name"]
        if LATER_FAMILIES.match(name) or not name.startswith("kthena_router_") or "mix" not in row["seen_in"] \
                and row["seen_in"] != "all":
            continue
        assert types.get(name) == row["type"], name
        series = {n: set(dict(labels)) - {"le"} for (n, labels) in samples if n in (name, name + "_count")}
        assert series, f"{name} has no series"
        for labels in series.values():
            assert labels == set(filter(None, row["labels"].split(","))), name
        if row["buckets"]:
            bounds = {dict(labels)["le"] for (n, labels) in samples if n == name + "_bucket"}
            assert {float(b) for b in bounds} == {float(b) for b in row["buckets"].split(",")}, name
        checked += 1
    assert checked >= 9
    assert not [n for n in types if n.startswith(("go_", "promhttp_"))]


@pytest.mark.parametrize("name", [r["name"] for r in names() if r["name"].startswith("process_")
                                  and "network" not in r["name"]])
def test_process_metrics(mixed, name):
    assert name in {n for n, _ in mixed[0].metrics()}


@pytest.fixture(scope="module", name="empty")
def _empty():
    with Router("", http_replay.DEFAULTS["router_config"], ["--compat=kthena"]) as router:
        yield router


def normal(value):
    """Lists of the config dump come in any order."""
    if isinstance(value, dict):
        return {k: normal(v) for k, v in value.items()}
    if isinstance(value, list):
        return sorted((normal(v) for v in value), key=lambda v: json.dumps(v, sort_keys=True))
    return value


def go_profile(record):
    return record["path"].startswith("/debug/pprof/")


@pytest.mark.parametrize("record", DEBUG, ids=lambda r: r["name"])
def test_debug_page(record, mixed, empty):
    router = empty if record.get("note") == "empty cluster" else mixed[0]
    got = router.debug(record["path"])
    if go_profile(record):
        assert got.status == 404
        return
    entry = ENTRIES.get(record["name"])
    wanted = http_replay.rewrite(record, mixed[2])
    found = page_differences(wanted, got)
    if entry:
        assert found, "the deviation no longer applies"
        wanted.update(entry["expect"])
        found = page_differences(wanted, got)
    assert not found


def page_differences(wanted, got):
    if got.status != wanted["status"]:
        return [f"status {got.status}, expected {wanted['status']}"]
    out = []
    for name, value in wanted["headers"]:
        if name not in ("Content-Length", "Transfer-Encoding") and \
                not http_rules.matches(value, got.headers.get(name, "")):
            out.append(f"{name}: {got.headers.get(name)}, expected {value}")
    if "json" in wanted["headers"][0][1]:
        body, expected = got.json(), json.loads(wanted["body"])
        for each in (body, expected):
            for pod in each.get("pods") or [each]:
                if pod.get("name") == "a-1":  # its histograms moved between the recordings
                    assert pod["metrics"].pop("ttft") >= 0 and pod["metrics"].pop("tpot") >= 0
        if normal(body) != normal(expected):
            out.append(f"{body} != {expected}")
    elif wanted["status"] != 301 and got.text != wanted["body"]:
        out.append(f"{got.text!r} != {wanted['body']!r}")
    return out


def test_profiles_are_counted():
    skip = next(s for s in DEVIATIONS["skips"] if s["name"] == "go-profiles")
    assert sum(map(go_profile, DEBUG)) == skip["counts"]
    assert set(ENTRIES) <= {r["name"] for r in DEBUG}
