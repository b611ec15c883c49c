"""http/pd.jsonl, the exchanges of ModelServers with a PD group, against the router with --compat=kthena."""

import os

import http_replay
import http_rules
import pd_rules
import pytest
import yaml

RECORDS = {r["name"]: r for r in http_replay.load("pd.jsonl")}
COUNTERS = http_replay.load_counters()

with open(os.path.join(http_replay.HERE, "deviations/pd.yaml"), encoding="utf-8") as _file:
    DEVIATIONS = yaml.safe_load(_file)
ENTRIES = {e["id"]: e for e in DEVIATIONS["records"]}


def expectation(name):
    """(what the rules make of the recording, the rules that had something to change)"""
    record = RECORDS[name]
    wanted = pd_rules.expectation(record, record["expect"], COUNTERS.get(name))
    if name not in COUNTERS:
        wanted["counters"] = None
    for rule in pd_rules.GENERAL:
        http_rules.RULES[rule](record, record["request"], wanted)
    hits = {rule for rule, change in pd_rules.RULES.items() if change(record, wanted)}
    return wanted, hits


@pytest.fixture(scope="module")
def runs(request):
    return http_replay.run_selected(request, lambda name: http_replay.run_record(RECORDS[name])[0])


def differences(wanted, got):
    wanted, got = {**wanted}, {**got}
    out = []
    if wanted["log"]:
        wanted["log"] = {**wanted["log"]}
        expected = wanted["log"].pop("prefill_pod", None)
        got["log"], pod = pd_rules.split_log(got["log"])
        if pod != expected:
            out.append(f"prefill_pod is {pod}, expected {expected}")
    return out + http_rules.differences(wanted, got)


@pytest.mark.parametrize("name", RECORDS)
def test_record(name, runs):
    got = runs[name]
    if isinstance(got, Exception):
        raise got
    got = pd_rules.observed(RECORDS[name], got)
    wanted, _ = expectation(name)
    found = differences(wanted, got)
    if name in ENTRIES:
        assert found, f"the deviation of {name} no longer applies: the router answers as recorded"
        found = differences(http_rules.apply_override(wanted, ENTRIES[name]["expect"]), got)
    assert not found, "\n".join(found)


def test_every_rule_is_listed_and_hits():
    assert {r["name"] for r in DEVIATIONS["rules"]} == set(pd_rules.RULES)
    assert set().union(*(expectation(name)[1] for name in RECORDS)) == set(pd_rules.RULES)
    assert set(ENTRIES) <= set(RECORDS)
    assert all(r["decision"] and r["why"] for r in DEVIATIONS["rules"] + DEVIATIONS["records"])
