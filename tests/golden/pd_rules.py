"""How the recordings of prefill/decode pairs become what warmroute must answer; deviations/pd.yaml names every step.
Expectations are those of http_rules, whose rules for all requests apply first."""

import json
import re

import http_rules

GENERAL = ("go-client-headers", "non-stream-include-usage", "hop-by-hop-request", "usage-event-blank-line",
           "answer-framing", "request-id-on-answers")


def role(engine):
    """p or d: pods are called NAME-p1, NAME-d1."""
    return engine.rpartition("-")[2][0]


def together(record):
    """SGLang's two requests leave at the same time."""
    if "together" in record:
        return record["together"]
    return any("inferenceEngine: SGLang" in w and "kvConnector" not in w for w in record["world"])


def in_order(record, seen):
    return sorted(seen, key=lambda s: role(s["engine"]) == "d") if together(record) else seen


def expectation(record, expect, counters):
    text = json.dumps(expect).replace("<int63>", '\\"<int63>\\"')
    out = http_rules.expectation(record, 0, json.loads(text), counters)
    out["engine_saw"] = in_order(record, out["engine_saw"])
    return out


def observed(record, got):
    """The room is a fresh number of 63 bits, the same for both engines."""
    rooms = {}
    for seen in got["engine_saw"] if together(record) else []:
        body = seen["body"]
        if isinstance(body, dict) and isinstance(body.get("bootstrap_room"), int):
            assert 0 <= body["bootstrap_room"] < 2 ** 63
            rooms.setdefault(role(seen["engine"]), []).append(body["bootstrap_room"])
            body["bootstrap_room"] = "<int63>"
    assert sorted(rooms.get("p", [])) == sorted(rooms.get("d", []))
    return {**got, "engine_saw": in_order(record, got["engine_saw"])}


# Rules. Each takes (record, expectation) and returns whether it changed something.

def pair_in_log(_record, expect):
    """The log names both pods and counts the answer's tokens."""
    log, seen = expect["log"], expect["engine_saw"]
    if not log or not seen:
        return False
    names = {role(s["engine"]): s["engine"] for s in seen}
    log["prefill_pod"] = names.get("p")
    if "d" in names:
        log["selected_pod"] = names["d"]
    for name, value in (expect["counters"] or {}).items():
        if 'token_type="output"' in name:
            log["output_tokens"] = int(value)
    return True


def whole_headers(record, expect):
    """Repeated headers of the answer all survive, hop-by-hop ones do not."""
    decode = next((s["engine"] for s in reversed(expect["engine_saw"]) if role(s["engine"]) == "d"), None)
    if decode is None or expect["status"] is None or expect["status"] >= 300:
        return False
    raw = http_rules.bytes_from_engine(record, decode)
    sent = [line.split(": ", 1) for line in raw.split(b"\r\n\r\n")[0].decode().split("\r\n")[1:] if ": " in line]
    named = {v.lower() for n, v in sent if n.lower() == "connection"}
    gone = http_rules.HOP_BY_HOP | http_rules.FRAMING | named
    own = [(n, v) for n, v in expect["headers"] if n in ("date", "x-request-id")]
    wanted = own + [(n.lower(), v) for n, v in sent if n.lower() not in gone]
    hit = sorted(wanted) != sorted(expect["headers"])
    expect["headers"] = wanted
    return hit


def _good_pair(expect, answers, bad):
    """The answer of the one pair that did not fail, alone."""
    engine, (status, _, body, _) = next((e, got) for e, got in answers
                                        if role(e) == "d" and e[-1] not in {b[-1] for b, _ in bad})
    hit = (status, body) != (expect["status"], expect["body"])
    expect.update(status=status, body=body)
    expect["answered_by"] = engine
    return hit


def engine_answer_is_relayed(record, expect):
    """The last answer of an engine that was not good is the client's; a failed prefill pod is one of a failed pair."""
    if not expect["engine_saw"] or expect["status"] is None:
        return False
    answers = [(s["engine"], http_rules.answer_of(record, s["engine"])) for s in expect["engine_saw"]]
    bad = [(engine, got) for engine, got in answers if got is not None and got[3] and got[0] >= 300]
    numbers = {engine[-1] for engine, _ in answers}
    if not bad or (expect["status"] == 200 and not together(record)):
        return False
    if len(numbers) > len({engine[-1] for engine, _ in bad}):
        return _good_pair(expect, answers, bad) if together(record) else False
    engine, (status, headers, body, _) = bad[-1]
    expect.update(status=status, framing="content-length", ended="complete", body=body)
    expect["headers"] = [(n, v) for n, v in expect["headers"] if n in ("date", "x-request-id")]
    expect["headers"] += [(n, v) for n, v in headers if n not in http_rules.FRAMING]
    log = expect["log"]
    log.pop("output_tokens", None)
    log.update(status_code=status, error_origin="upstream", upstream_status_code=status,
               error={"type": "upstream_response", "message": f"pod golden/{engine} returned HTTP {status}"})
    if 400 <= status < 500 and status not in (404, 429):
        log["selected_pod"] = engine  # relayed at once
    http_rules.drop_counter(expect, "output")
    http_rules.relabel(expect, status_code=str(status), error_type="upstream_response")
    return True


def exact_numbers(record, expect):
    """Transfer parameters arrive as the prefill pod wrote them."""
    hit = False
    prefill = None
    for seen in expect["engine_saw"] if record.get("transfers", True) else []:
        params = isinstance(seen["body"], dict) and seen["body"].get("kv_transfer_params")
        if role(seen["engine"]) == "p":
            prefill = seen["engine"]
        if not params or role(seen["engine"]) != "d":
            continue
        sent = json.loads(http_rules.answer_of(record, prefill)[2]).get("kv_transfer_params")
        hit |= sent != params
        seen["body"]["kv_transfer_params"] = sent
    return hit


def usage_events(record, expect):
    """When the router asked for usage, events that hold nothing else are taken out whole; all others stay."""
    decode = next((s for s in reversed(expect["engine_saw"]) if role(s["engine"]) == "d"), None)
    if "answered_by" in expect:
        decode = next(s for s in expect["engine_saw"] if s["engine"] == expect["answered_by"])
    answer = decode and http_rules.answer_of(record, decode["engine"])
    options = decode and isinstance(decode["body"], dict) and decode["body"].get("stream_options")
    own = json.loads(record["request"]["body"]).get("stream_options")
    asked = isinstance(options, dict) and options.get("include_usage") is True and \
        not (isinstance(own, dict) and own.get("include_usage") is True)
    if not asked or expect["status"] != 200 or not dict(answer[1]).get("content-type", "").startswith("text/event"):
        return False

    def stays(event):
        for line in event.split("\n"):
            if line.startswith("data:"):
                try:
                    data = json.loads(line[5:])
                except ValueError:
                    continue
                if data.get("usage") and not data.get("choices"):
                    return False
        return True

    events = answer[2].decode().split("\n\n")
    body = "\n\n".join(event for event in events if stays(event)).encode()
    hit = body != expect["body"]
    expect["body"] = body
    return hit


def one_token_of_responses(record, expect):
    """The Responses API's own limit is 1 for the prefill pod."""
    hit = False
    for seen in expect["engine_saw"] if record["request"]["path"].startswith("/v1/responses") else []:
        if role(seen["engine"]) == "p":
            hit |= seen["body"].get("max_output_tokens") != 1
            seen["body"]["max_output_tokens"] = 1
    return hit


def no_answer_is_503(_record, expect):
    """No engine answered: 503, not 500."""
    if expect["status"] != 500 or expect["body"] != b'"all prefill/decode attempts failed"':
        return False
    expect["status"] = expect["log"]["status_code"] = 503
    http_rules.relabel(expect, status_code="503", error_type="proxy")
    return True


RULES = {"pair-in-log": pair_in_log, "whole-headers": whole_headers, "exact-numbers": exact_numbers,
         "engine-answer-is-relayed": engine_answer_is_relayed, "no-answer-is-503": no_answer_is_503}

VECTOR_RULES = {"whole-headers": whole_headers, "exact-numbers": exact_numbers,
                "engine-answer-is-relayed": engine_answer_is_relayed, "usage-events": usage_events,
                "no-answer-is-503": no_answer_is_503, "one-token-of-responses": one_token_of_responses}


def split_log(line):
    """(line without prefill_pod, its value): http_rules knows Go's fields only."""
    found = re.search(r',"prefill_pod":"([^"]*)"', line or "")
    return (line.replace(found.group(0), ""), found.group(1)) if found else (line, None)
