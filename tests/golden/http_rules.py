"""How the recordings of the Go router become what warmroute must answer (deviations/http.yaml names every step).

An expectation is a dict: status, ended, framing, headers (lower-case names), body (bytes; None: not compared),
body_pattern, interim, connection_after, engine_saw, log (a dict in log order, or None) and counters.
A rule changes it in place and says whether it had anything to change.
"""

import base64
import copy
import hashlib
import json
import re

LOG_ORDER = ["timestamp", "method", "path", "protocol", "status_code", "error", "model_name", "model_route",
             "model_server", "selected_pod", "request_id", "backend_type", "backend_name", "upstream_model",
             "upstream_status_code", "upstream_attempts", "error_origin", "gateway", "http_route", "inference_pool",
             "input_tokens", "output_tokens", "duration_total", "duration_request_processing",
             "duration_upstream_processing", "duration_response_processing"]
LABELLED_PATHS = {f"/v1/{p}" for p in ("chat/completions", "completions", "responses", "messages", "embeddings",
                                       "rerank", "score", "models", "audio/speech")}
HOP_BY_HOP = {"connection", "keep-alive", "te", "proxy-authorization", "proxy-connection", "proxy-authenticate",
              "upgrade", "trailer", "expect"}
FRAMING = {"content-length", "transfer-encoding"}


# What one record says

def expectation(record, index, expect, counters):
    """The recorded values of one request of a record, in comparable form."""
    body = expect.get("body")
    out = {
        "status": expect.get("status"),
        "ended": expect.get("ended"),
        "framing": expect.get("framing"),
        "headers": [(n.lower(), v) for n, v in expect.get("headers", []) if n.lower() not in FRAMING],
        "body": body.encode() if body is not None else None,
        "body_pattern": None,
        "interim": expect.get("interim", []),
        "connection_after": expect.get("connection_after"),
        "engine_saw": [_saw(s) for s in expect.get("engine_saw") or []],
        "log": json.loads(expect["access_log_json"]) if expect.get("access_log_json") else None,
        "counters": dict(counters) if index == 0 else None,
    }
    if "body_b64" in expect:
        out["body"] = base64.b64decode(expect["body_b64"])
    if "body_sha256" in expect:
        out["body"] = None
        out["body_sha256"] = expect["body_sha256"]
    return out


def _saw(seen):
    return {
        "engine": seen["engine"],
        "request_line": seen["request_line"],
        "headers": [(n.lower(), v) for n, v in seen["headers"] if n.lower() not in FRAMING],
        "body": json.loads(seen["body"]) if seen.get("body") else None,
        "peer_closed": seen.get("peer_closed", False),
    }


def log_json(log):
    ordered = {key: log[key] for key in LOG_ORDER if key in log}
    text = json.dumps(ordered, separators=(",", ":"), ensure_ascii=False)
    text = re.sub("[<>&]", lambda m: "\\u%04x" % ord(m.group()), text)
    return re.sub(r"\\u003c(ts|uuid|ms|date|len|any)\\u003e", r"<\1>", text)


def log_text(log):
    """The text form of the same line (spec 17.2)."""
    parts = [f'[{log["timestamp"]}] "{log["method"]} {log["path"]} {log["protocol"]}" {log["status_code"]}']
    if "error" in log:
        parts.append(f'error={log["error"]["type"]}:{log["error"]["message"]}')
    for key in LOG_ORDER[6:20]:
        if log.get(key) not in (None, ""):
            parts.append(f"{key}={log[key]}")
    if log.get("input_tokens") or log.get("output_tokens"):
        parts.append(f'tokens={log.get("input_tokens", 0)}/{log.get("output_tokens", 0)}')
    parts.append("timings={}ms({}+{}+{})".format(*(log[key] for key in LOG_ORDER[22:26])))
    return " ".join(parts)


PLACEHOLDERS = {
    "<ts>": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)",
    "<uuid>": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "<ms>": r"\d+",
    "<date>": r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT",
    "<len>": r"\d+",
    "<any>": r".*",
}


def pattern(text):
    """A regular expression for a recorded text with placeholders; a quoted "<ms>" stands for a bare number."""
    out = ""
    for piece in re.split(r'("<ms>"|<(?:ts|uuid|ms|date|len|any)>)', text):
        if piece == '"<ms>"':
            out += r"\d+"
        else:
            out += PLACEHOLDERS.get(piece) or re.escape(piece)
    return re.compile(out, re.DOTALL)


def matches(expected, got):
    return pattern(expected).fullmatch(got) is not None


# Rules. Each takes (record, request, expectation) and returns whether it changed something.

def go_client_headers(_record, request, expect):
    sent = {n.lower() for n, _ in request.get("headers", [])}
    return _drop_engine_headers(expect, lambda n, v: (n == "user-agent" and v.startswith("Go-http-client"))
                                or (n == "accept-encoding" and n not in sent))


def non_stream_include_usage(_record, _request, expect):
    hit = False
    for seen in expect["engine_saw"]:
        if isinstance(seen["body"], dict) and not seen["body"].get("stream") is True:
            hit |= seen["body"].pop("include_usage", None) is not None
            seen["include_usage_free"] = True
    return hit


def hop_by_hop_request(_record, request, expect):
    named = set()
    for name, value in request.get("headers", []):
        if name.lower() == "connection":
            named |= {v.strip().lower() for v in value.split(",")}
    return _drop_engine_headers(expect, lambda n, _: n in HOP_BY_HOP or n in named)


def _drop_engine_headers(expect, unwanted):
    hit = False
    for seen in expect["engine_saw"]:
        kept = [(n, v) for n, v in seen["headers"] if not unwanted(n, v)]
        hit |= len(kept) != len(seen["headers"])
        seen["headers"] = kept
    return hit


def request_id_on_answers(_record, request, expect):
    """The id that is logged and sent to the engine is on the answer too, whatever the engine wrote there."""
    if expect["log"] is None or expect["status"] is None:
        expect["headers_free"] = expect.get("headers_free", set()) | {"x-request-id"}
        return False
    expect["headers"] = [(n, v) for n, v in expect["headers"] if n != "x-request-id"]
    expect["headers"].append(("x-request-id", expect["log"]["request_id"]))
    return True


def usage_event_blank_line(_record, _request, expect):
    body = expect["body"]
    if not body or expect["log"] is None:
        return False
    fixed = body.replace(b"\r\n\r\n\r\n", b"\r\n\r\n").replace(b"\n\n\n", b"\n\n")
    expect["body"] = fixed
    return fixed != body


def bounded_path_label(_record, _request, expect):
    changed = {}
    for name, value in (expect["counters"] or {}).items():
        path = re.search(r'path="([^"]*)"', name)
        if path and path.group(1) not in LABELLED_PATHS:
            name = name.replace(path.group(0), 'path="other"')
        changed[name] = changed.get(name, 0) + value
    hit = changed != (expect["counters"] or {})
    if expect["counters"] is not None:
        expect["counters"] = changed
    return hit


def go_library_text(_record, _request, expect):
    """Status, error type and stage count; the sentence is ours."""
    log = expect["log"]
    if log is None:
        if expect["status"] in (301, 307) or (expect["status"] or 0) in (400, 431, 501, 505):
            expect["body"] = None
            expect["headers"] = [(n, v) for n, v in expect["headers"] if n not in ("content-type", "date")]
            expect["framing_free"] = True
            expect["headers_free"] = {"content-type", "date"}
            return True
        return False
    if log.get("error", {}).get("type") == "request_parsing" and log["error"]["message"] not in (
            "model not found", "invalid request body"):
        log["error"]["message"] = "<any>"
        if expect["body"]:
            expect["body"], expect["body_pattern"] = None, r'".+"'
        return True
    return False


def parse_errors_counted(_record, request, expect):
    log = expect["log"]
    if log is None or log.get("error", {}).get("type") != "request_parsing" or expect["counters"] is None:
        return False
    path = log["path"] if log["path"] in LABELLED_PATHS else "other"
    name = ('kthena_router_requests_total{backend_name="none",backend_type="unresolved",error_type="request_parsing",'
            f'model="unknown",model_route="none",path="{path}",status_code="{log["status_code"]}",'
            'upstream_model="none"}')
    expect["counters"] = {**expect["counters"], name: 1}
    return True


def usage_only_where_known(_record, _request, expect):
    hit = False
    for seen in expect["engine_saw"]:
        path = seen["request_line"].split(" ")[1].split("?")[0]
        if path not in ("/v1/chat/completions", "/v1/completions") and isinstance(seen["body"], dict):
            hit |= seen["body"].pop("stream_options", None) is not None
    return hit


def stream_options_kept(_record, request, expect):
    hit = False
    try:
        sent = json.loads(request.get("body") or "null")
    except ValueError:
        return False
    if not isinstance(sent, dict) or not isinstance(sent.get("stream_options"), dict):
        return False
    for seen in expect["engine_saw"]:
        if isinstance(seen["body"], dict) and seen["body"].get("stream_options") == {"include_usage": True}:
            kept = {**sent["stream_options"], "include_usage": True}
            hit |= kept != seen["body"]["stream_options"]
            seen["body"]["stream_options"] = kept
    return hit


def lone_surrogate_as_sent(_record, request, expect):
    hit = False
    for seen in expect["engine_saw"]:
        if "\\ud800" in (request.get("body") or ""):
            seen["body"]["prompt"] = json.loads(request["body"])["prompt"]
            hit = True
    return hit


def bytes_from_engine(record, engine, index=0):
    """What a script sends, as bytes."""
    answers = record["engines"].get(engine, {}).get("answers")
    if not answers:
        return None
    out = b""
    for step in answers[min(index, len(answers) - 1)]:
        if "send" in step:
            out += step["send"].encode()
        elif "send_b64" in step:
            out += base64.b64decode(step["send_b64"])
    return out


def answer_of(record, engine):
    """(status, headers, body, complete) of an engine's first answer, or None when there is no head."""
    raw = bytes_from_engine(record, engine)
    if raw is None:
        return 200, [], None, True
    head, mark, body = raw.partition(b"\r\n\r\n")
    while mark and head.startswith(b"HTTP/1.1 1"):
        head, mark, body = body.partition(b"\r\n\r\n")
    if not mark:
        return None
    lines = head.decode("latin-1").split("\r\n")
    headers = [(n.lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:])]
    status = int(lines[0].split(" ")[1])
    length = dict(headers).get("content-length")
    complete = length is None or len(body) >= int(length)
    return status, headers, body, complete


def engine_answer_is_relayed(record, request, expect):
    """Decision 3.3: most 3xx and 4xx at once, 404, 429 and 5xx when no pod did better."""
    if isinstance(record["request"], list) or not expect["engine_saw"] or expect["status"] is None:
        return False
    relayed = None
    for attempt, seen in enumerate(expect["engine_saw"], 1):
        got = answer_of(record, seen["engine"])
        if got is None or not got[3] or 200 <= got[0] < 300:
            if got is not None and got[3]:
                return False  # a good answer
            continue
        relayed = (attempt, seen["engine"], got)
        if got[0] not in (404, 429) and got[0] < 500:
            break
    if relayed is None:
        return False
    attempt, engine, (status, headers, body, _) = relayed
    attempts = attempt if status not in (404, 429) and status < 500 else len(expect["engine_saw"])
    expect["engine_saw"] = expect["engine_saw"][:attempts]
    expect.update(status=status, framing="content-length", ended="complete", body=body, body_pattern=None)
    expect["headers"] = [("date", "<date>")] + [(n, v) for n, v in headers if n not in FRAMING]
    log = expect["log"]
    log.pop("output_tokens", None)
    log.update(status_code=status, error_origin="upstream", upstream_status_code=status, upstream_attempts=attempts,
               selected_pod=engine,
               error={"type": "upstream_response", "message": f"pod golden/{engine} returned HTTP {status}"})
    drop_counter(expect, "output")
    relabel(expect, status_code=str(status), error_type="upstream_response")
    return True


def answering_pod_in_log(_record, _request, expect):
    """selected_pod is the pod that answered, else the last tried."""
    log = expect["log"]
    if log is None or not expect["engine_saw"] or "selected_pod" not in log:
        return False
    last = expect["engine_saw"][-1]["engine"]
    hit = log["selected_pod"] != last
    log["selected_pod"] = last
    return hit


def answer_framing(record, request, expect):
    """The answer is framed as the engine framed it: counted stays counted unless events may be removed."""
    if expect["framing"] in (None, "none") or not expect["engine_saw"]:
        return False
    engine = expect["engine_saw"][-1]["engine"]
    raw = bytes_from_engine(record, engine)
    if raw is None or expect["status"] >= 300:
        return False
    final = raw.split(b"\r\n\r\n", 2)[1] if raw.startswith(b"HTTP/1.1 1") else raw
    head = final.split(b"\r\n\r\n")[0].lower()
    sent = expect["engine_saw"][-1]["body"]
    asked = isinstance(sent, dict) and sent.get("stream_options") == {"include_usage": True} and \
        b"text/event-stream" in head
    if b"content-length:" in head and not asked:
        framing = "content-length"
    else:
        framing = "close" if request.get("protocol") == "HTTP/1.0" else "chunked"
    hit = framing != expect["framing"]
    expect["framing"] = framing
    return hit


def closing_is_announced(_record, request, expect):
    """To a HTTP/1.0 client, for whom closing is the default, it may be said or not."""
    if expect["status"] is None or request.get("protocol") != "HTTP/1.0":
        return False
    expect["headers_free"] = expect.get("headers_free", set()) | {"connection"}
    return True


def unread_body_closes(_record, request, expect):
    """An answer given before the body was read ends the connection."""
    if expect["status"] != 404 or expect["body"] != b"404 page not found" or not request.get("body"):
        return False
    expect["headers"].append(("connection", "close"))
    return True


def relabel(expect, **labels):
    """Changes labels of requests_total."""
    if expect["counters"] is None:
        return
    out = {}
    for name, value in expect["counters"].items():
        if name.startswith("kthena_router_requests_total{"):
            for label, new in labels.items():
                name = re.sub(rf'{label}="[^"]*"', f'{label}="{new}"', name)
        out[name] = value
    expect["counters"] = out


def drop_counter(expect, token_type):
    if expect["counters"] is not None:
        expect["counters"] = {n: v for n, v in expect["counters"].items() if f'token_type="{token_type}"' not in n}


RULES = {
    "go-client-headers": go_client_headers,
    "non-stream-include-usage": non_stream_include_usage,
    "hop-by-hop-request": hop_by_hop_request,
    "usage-only-where-known": usage_only_where_known,
    "stream-options-kept": stream_options_kept,
    "lone-surrogate-as-sent": lone_surrogate_as_sent,
    "usage-event-blank-line": usage_event_blank_line,
    "go-library-text": go_library_text,
    "engine-answer-is-relayed": engine_answer_is_relayed,
    "answering-pod-in-log": answering_pod_in_log,
    "answer-framing": answer_framing,
    "closing-is-announced": closing_is_announced,
    "unread-body-closes": unread_body_closes,
    "request-id-on-answers": request_id_on_answers,
    "parse-errors-counted": parse_errors_counted,
    "bounded-path-label": bounded_path_label,
}


# Single records

def apply_override(expect, override):
    """`override`: the `expect` of an entry; see deviations/http.yaml for its keys."""
    expect = copy.deepcopy(expect)
    for key, value in override.items():
        if key in ("status", "ended", "framing", "interim", "connection_after", "body_pattern", "alpn"):
            expect[key] = value
            if key == "body_pattern":
                expect["body"] = None
        elif key == "body":
            expect["body"], expect["body_pattern"] = value.encode(), None
        elif key == "body_b64":
            expect["body"], expect["body_pattern"] = base64.b64decode(value), None
        elif key == "headers":  # added, or replaced where the name is there
            names = {n.lower() for n in value}
            expect["headers"] = [(n, v) for n, v in expect["headers"] if n not in names]
            expect["headers"] += [(n.lower(), v) for n, v in value.items() if v is not None]
        elif key == "headers_free":
            expect["headers"] = [(n, v) for n, v in expect["headers"] if n not in value]
            expect["headers_free"] = expect.get("headers_free", set()) | set(value)
        elif key == "framing_free":
            expect["framing_free"] = value
        elif key == "engines":  # the pods that were asked, in order
            by_name = {s["engine"]: s for s in expect["engine_saw"]}
            first = expect["engine_saw"][0] if expect["engine_saw"] else None
            expect["engine_saw"] = [{**(by_name.get(n) or first), "engine": n} for n in value]
        elif key == "request_line":
            for seen in expect["engine_saw"]:
                seen["request_line"] = value
        elif key == "log":
            if value is None:
                expect["log"] = None
            else:
                expect["log"] = {**(expect["log"] or {}), **value}
                expect["log"] = {k: v for k, v in expect["log"].items() if v is not None}
        elif key == "requests_total":
            relabel(expect, **value)
        elif key == "counters":
            expect["counters"] = dict(value)
        elif key == "output_tokens":
            _set_output_tokens(expect, value)
        else:
            raise KeyError(f"unknown key {key} in a deviation")
    return expect


def _set_output_tokens(expect, count):
    drop_counter(expect, "output")
    if count == 0:
        expect["log"].pop("output_tokens", None)
        return
    expect["log"]["output_tokens"] = count
    inputs = [n for n in expect["counters"] if 'token_type="input"' in n]
    if inputs:
        expect["counters"][inputs[0].replace('token_type="input"', 'token_type="output"')] = count


# Comparing

def differences(expect, got):
    """Sentences, one for each difference; empty when equal."""
    out = []

    def note(what, wanted, found):
        out.append(f"{what}: expected {wanted!r}, got {found!r}")

    for key in ("status", "ended", "interim"):
        if expect[key] != got[key]:
            note(key, expect[key], got[key])
    if expect["framing"] != got["framing"] and not expect.get("framing_free"):
        note("framing", expect["framing"], got["framing"])
    if expect["connection_after"] and expect["connection_after"] != got["connection_after"]:
        note("connection_after", expect["connection_after"], got["connection_after"])
    out += _header_differences("answer", expect["headers"], got["headers"], expect.get("headers_free", set()))
    _compare_body(expect, got, note)
    names = [s["engine"] for s in expect["engine_saw"]]
    if names != [s["engine"] for s in got["engine_saw"]]:
        note("engines asked", names, [s["engine"] for s in got["engine_saw"]])
    else:
        for wanted, found in zip(expect["engine_saw"], got["engine_saw"]):
            out += _engine_differences(wanted, found)
    if expect["log"] is None:
        if got["log"]:
            note("log", None, got["log"])
    elif not matches(log_json(expect["log"]), got["log"] or ""):
        out.append(_log_difference(expect["log"], got["log"]))
    if expect["counters"] is not None and expect["counters"] != got["counters"]:
        missing = {k: v for k, v in expect["counters"].items() if got["counters"].get(k) != v}
        extra = {k: v for k, v in got["counters"].items() if expect["counters"].get(k) != v}
        note("counters", missing, extra)
    return out


def _log_difference(wanted, line):
    try:
        got = json.loads(line or "")
    except ValueError:
        return f"log: expected {log_json(wanted)}, got {line}"
    keys = [k for k in {**wanted, **got}
            if k not in wanted or k not in got or not matches(json.dumps(wanted[k]), json.dumps(got[k]))]
    if not keys:
        return f"log: expected the form {log_json(wanted)}, got {line}"
    return "log: " + ", ".join(f"{k} is {got.get(k)!r}, expected {wanted.get(k)!r}" for k in keys)


def _compare_body(expect, got, note):
    if expect["ended"] == "client_aborted":
        return  # how much of it was read is a matter of time
    if "body_sha256" in expect:
        if hashlib.sha256(got["body"]).hexdigest() != expect["body_sha256"]:
            note("body", expect["body_sha256"], got["body"][:200])
    elif expect["body_pattern"] is not None:
        if not re.fullmatch(expect["body_pattern"], got["body"].decode("utf-8", "replace"), re.DOTALL):
            note("body", expect["body_pattern"], got["body"])
    elif expect["body"] is not None and expect["body"] != got["body"]:
        note("body", expect["body"], got["body"])


def _header_differences(where, wanted, found, free=frozenset()):
    left = [(n, v) for n, v in found if n not in FRAMING and n not in free]
    out = []
    for name, value in wanted:
        for at, (other, text) in enumerate(left):
            if other == name and matches(value, text):
                del left[at]
                break
        else:
            out.append(f"{where}: header {name}: {value} is missing")
    # a closing connection is announced; a framed answer of ours may carry a Date where Go's raw ones do not
    out += [f"{where}: unexpected header {n}: {v}" for n, v in left]
    return out


def _engine_differences(wanted, found):
    out = []
    name = wanted["engine"]
    if wanted["request_line"] != found["request_line"]:
        out.append(f"{name}: request line {found['request_line']!r}, expected {wanted['request_line']!r}")
    out += _header_differences(name, wanted["headers"], found["headers"])
    body = found["body"]
    if wanted.get("include_usage_free") and isinstance(body, dict):
        body = {k: v for k, v in body.items() if k != "include_usage"}
    if wanted["body"] != body:
        out.append(f"{name}: body {body!r}, expected {wanted['body']!r}")
    if wanted["peer_closed"] and not found["peer_closed"]:
        out.append(f"{name}: the router did not close the connection of the unfinished request")
    return out
