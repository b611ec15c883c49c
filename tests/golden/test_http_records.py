"""http/errors.jsonl and http/success.jsonl against the router with --compat=kthena."""

import json
import os
import re

import http_replay
import http_rules
import pytest
import yaml

RECORDS = {r["name"]: r for name in ("errors.jsonl", "success.jsonl") for r in http_replay.load(name)}
COUNTERS = http_replay.load_counters()

with open(os.path.join(http_replay.HERE, "deviations/http.yaml"), encoding="utf-8") as _file:
    DEVIATIONS = yaml.safe_load(_file)
ENTRIES = {e["id"]: e for e in DEVIATIONS["records"]}


def needs_external_provider(record):
    return "external_provider" in record["router"] or any("externalModelProviderName" in w for w in record["world"]) \
        and record["expect"]["status"] == 404


SKIPS = {"external-provider": needs_external_provider}


def skipped_by(record):
    return next((name for name, applies in SKIPS.items() if applies(record)), None)


TO_RUN = [name for name, record in RECORDS.items() if not skipped_by(record)]


def expectations(name):
    """(what the rules make of the recording, the rules that had something to change)"""
    record = RECORDS[name]
    requests = record["request"] if isinstance(record["request"], list) else [record["request"]]
    expects = record["expect"] if isinstance(record["expect"], list) else [record["expect"]]
    out, hits = [], set()
    for index, (request, recorded) in enumerate(zip(requests, expects)):
        counters = COUNTERS.get(name, {}) if len(requests) == 1 and name in COUNTERS else None
        wanted = http_rules.expectation(record, index, recorded, counters or {})
        if counters is None:
            wanted["counters"] = None
        for rule, change in http_rules.RULES.items():
            if change(record, request, wanted):
                hits.add(rule)
        out.append(wanted)
    return out, hits


@pytest.fixture(scope="module")
def runs(request):
    """Every selected record is run twice, with both access-log formats, several records at once."""
    def both(name):
        out = {}
        for log_format in ("json", "text"):
            try:
                out[log_format] = http_replay.run_record(RECORDS[name], log_format)
            except Exception as error:  # pylint: disable=broad-except
                out[log_format] = error
        return out

    return http_replay.run_selected(request, both)


def compare(wanted, got):
    if "alpn" in wanted:
        return [] if wanted["alpn"] == got["alpn"] else [f"ALPN {got['alpn']}, expected {wanted['alpn']}"]
    return http_rules.differences(wanted, got)


@pytest.mark.parametrize("name", TO_RUN)
def test_record(name, runs):
    got = runs[name]["json"]
    if isinstance(got, Exception):
        raise got
    wanted, _ = expectations(name)
    entry = ENTRIES.get(name)
    if name == "tls-alpn":
        wanted = [{"alpn": RECORDS[name]["expect"]["alpn"]}]
    found = [d for w, g in zip(wanted, got) for d in compare(w, g)]
    if entry is not None:
        assert found, f"the deviation of {name} no longer applies: the router answers as recorded"
        if name == "tls-alpn":
            wanted = [{"alpn": entry["expect"]["alpn"]}]
        else:
            overrides = entry["expect"] if isinstance(entry["expect"], list) else [entry["expect"]]
            wanted = [http_rules.apply_override(w, o) for w, o in zip(wanted, overrides)]
        found = [d for w, g in zip(wanted, got) for d in compare(w, g)]
    assert not found, "\n".join(found)
    _check_text_log(name, wanted, runs[name]["text"])


def _check_text_log(name, wanted, got):
    if isinstance(got, Exception):
        raise got
    for expect, seen in zip(wanted, got):
        if expect.get("log"):
            line = http_rules.log_text(expect["log"])
            assert http_rules.matches(line, seen["log"] or ""), f"{name}: text log\n{seen['log']}\nexpected\n{line}"


def test_every_rule_is_listed_and_hits():
    assert {r["name"] for r in DEVIATIONS["rules"]} == set(http_rules.RULES)
    hits = set()
    for name in TO_RUN:
        if name != "tls-alpn":
            hits |= expectations(name)[1]
    assert hits == set(http_rules.RULES)
    assert all(r["decision"] and r["why"] for r in DEVIATIONS["rules"] + DEVIATIONS["records"])


def test_skips_are_listed_and_counted():
    for skip in DEVIATIONS["skips"]:
        if "counts" in skip and skip["file"] == "records":
            assert sum(skipped_by(r) == skip["name"] for r in RECORDS.values()) == skip["counts"]
    assert set(SKIPS) == {s["name"] for s in DEVIATIONS["skips"] if s["file"] == "records"}


def test_entries_name_records_that_run():
    assert set(ENTRIES) <= set(TO_RUN)


def test_both_recorded_log_formats_say_the_same():
    """The text line is derived from the JSON line by one function, which the recordings prove right."""
    checked = 0
    for record in RECORDS.values():
        for expect in record["expect"] if isinstance(record["expect"], list) else [record["expect"]]:
            if expect.get("access_log_json") and expect.get("access_log_text"):
                log = json.loads(expect["access_log_json"])
                assert http_rules.log_json(log) == expect["access_log_json"]
                assert http_rules.log_text(log) == expect["access_log_text"]
                assert re.fullmatch(r"\[<ts>\] .*", expect["access_log_text"], re.DOTALL)
                checked += 1
    assert checked > 100
