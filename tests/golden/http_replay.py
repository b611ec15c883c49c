"""Replays one recorded exchange against the router: world, engines, client bytes, and everything that came of it."""

import concurrent.futures
import json
import os
import ssl
import subprocess
import tempfile
import threading
import time

from support.engine import DEFAULT_METRICS, Engine
from support.router import Router, wait_for
from support.slots import Slot
from support.wire import Conn, b64, chunked

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "http")

with open(os.path.join(DATA, "defaults.json"), encoding="utf-8") as _file:
    DEFAULTS = json.load(_file)


def load(name):
    with open(os.path.join(DATA, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def load_counters():
    """{record name: {series: added}}, requests and tokens only."""
    out = {}
    with open(os.path.join(DATA, "counters.tsv"), encoding="utf-8") as file:
        next(file)
        for line in file:
            name, series, added = line.rstrip("\n").split("\t")
            rows = out.setdefault(name, {})
            if series != "(none)":
                rows[series] = float(added)
    return out


def counters_of(router):
    out = {}
    for (name, labels), value in router.metrics().items():
        if name in ("kthena_router_requests_total", "kthena_router_tokens_total") and value:
            text = ",".join(f'{key}="{val}"' for key, val in labels)
            out[f"{name}{{{text}}}"] = value
    return out


_certificate = {}
_certificate_lock = threading.Lock()


def certificate():
    """(certificate file, key file), self-signed for router.test, made once."""
    with _certificate_lock:
        if not _certificate:
            folder = tempfile.mkdtemp(prefix="warmroute-test-tls-")
            cert, key = os.path.join(folder, "tls.crt"), os.path.join(folder, "tls.key")
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=router.test",
                            "-addext", "subjectAltName=DNS:router.test"], check=True, stderr=subprocess.DEVNULL)
            _certificate.update(cert=cert, key=key)
    return _certificate["cert"], _certificate["key"]


def insecure_tls(alpn=None):
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def rewrite(record, slot):
    """The record with its addresses 127.0.1.N moved to the slot's (of the same length, so bodies keep theirs)."""
    return json.loads(json.dumps(record).replace("127.0.1.", slot.prefix))


def make_engines(world_engines, defaults_listen=True):
    engines = {}
    for name, spec in world_engines.items():
        ip, _, port = spec["addr"].rpartition(":")
        engines[name] = Engine(ip, int(port), answers=spec.get("answers") or DEFAULTS["engine_answer"],
                               metrics=spec.get("metrics", DEFAULT_METRICS),
                               models=spec.get("models", DEFAULTS["engine_models"]), name=name,
                               listen=defaults_listen and spec.get("listens", True))
    return engines


def config_text(router_spec):
    return DEFAULTS["router_config"] if router_spec["config"] == "default" else router_spec["config"]


def request_data(request):
    if "raw" in request:
        return request["raw"].encode("latin-1"), b""
    headers = [(n, "A" * 1100000 if v == "A*1100000" else v) for n, v in request["headers"]]
    head = f'{request["method"]} {request["path"]} {request.get("protocol", "HTTP/1.1")}\r\n'
    head += "".join(f"{n}: {v}\r\n" for n, v in headers) + "\r\n"
    if "chunks" in request:
        body = chunked(*request["chunks"])
    elif "body_b64" in request:
        body = b64(request["body_b64"])
    else:
        body = request.get("body", "").encode()
    return head.encode("latin-1"), body


def play_request(router, request, tls=None):
    """(Response, what became of the connection or None)"""
    head, body = request_data(request)
    method = request.get("method") or "GET"
    with Conn(router.address, tls, "router.test") as conn:
        interim = []
        try:
            if any(n.lower() == "expect" for n, _ in request.get("headers", [])):
                conn.send(head)
                line, _ = conn.read_head()
                interim.append(line)
                conn.send(body)
            else:
                conn.send(head + body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused early; the answer may still be there
        if "abort_after_ms" in request:
            response = conn.read_response(method, request["abort_after_ms"] / 1000)
            if response.status is None and response.ended == "timeout":
                conn.reset()
                response.ended = "client_aborted"
            return response, None
        response = conn.read_response(method, abort_after_bytes=request.get("abort_after_bytes"))
        response.interim = interim + response.interim
        state = None
        if request.get("check_conn"):
            state = {"open": "kept_open", "closed": "closed", "reset": "closed"}[conn.wait_end(0.3)]
        return response, state


def run_record(record, log_format="json"):
    """A list of what was seen, one entry for each request of the record (the form of http_rules)."""
    slot = Slot(one_digit=True)
    engines = {}
    try:
        record = rewrite(record, slot)
        spec = record["router"]
        flags, tls = ["--compat=kthena"], None
        if any(f.startswith("--tls-cert") for f in spec["flags"]):
            cert, key = certificate()
            flags += [f"--tls-cert={cert}", f"--tls-key={key}"]
            tls = insecure_tls()
        engines = make_engines(record["engines"])
        router = Router("---\n".join(record["world"]), config_text(spec), flags, spec["env"], log_format, slot,
                        start=False)
        if "protocol: https" in json.dumps(record["world"]):
            router.command.append("--connect-timeout=700ms")  # the engine says nothing to a TLS hello
        with router:
            _start(router, tls)
            if record["name"] == "tls-alpn":
                return _alpn(router)
            requests = record["request"] if isinstance(record["request"], list) else [record["request"]]
            expects = record["expect"] if isinstance(record["expect"], list) else [record["expect"]]
            out, lines_due = [], 0
            for request, expect in zip(requests, expects):
                time.sleep(request.get("wait_before_ms", 0) / 1000)
                seen_before = {name: len(e.requests) for name, e in engines.items()}
                response, state = play_request(router, request, tls)
                lines_due += 1 if expect.get("access_log_json") else 0
                out.append(_observe(router, response, state, engines, seen_before, lines_due, expect))
            return out
    finally:
        for engine in engines.values():
            engine.stop()
        slot.release()


def run_selected(request, run):
    """{name: run(name)} for the selected tests of the module that are parametrized by `name`, several at once. What
    run() raises is its result."""
    wanted = {item.callspec.params["name"] for item in request.session.items
              if getattr(item, "callspec", None) and "name" in item.callspec.params and item.module is request.module}

    def caught(name):
        try:
            return run(name)
        except Exception as error:  # pylint: disable=broad-except
            return error

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("WR_GOLDEN_AT_ONCE", "5"))) as pool:
        return dict(zip(wanted, pool.map(caught, wanted)))


def _start(router, tls):
    if tls is None:
        router.start()
        return
    router.start(wait_ready=False)

    def ready():
        try:
            with Conn(router.address, tls, "router.test", 2) as conn:
                conn.send(b"GET /readyz HTTP/1.1\r\nHost: router.test\r\nConnection: close\r\n\r\n")
                return conn.read_response("GET").status == 200
        except OSError:
            return False

    wait_for(ready, 15, "ready over TLS")


def _alpn(router):
    with Conn(router.address, insecure_tls(["h2", "http/1.1"]), "router.test") as conn:
        return [{"alpn": conn.sock.selected_alpn_protocol(), "tls_version": conn.sock.version()}]


def _observe(router, response, state, engines, seen_before, lines_due, expect):
    if any(s.get("peer_closed") for s in expect.get("engine_saw") or []):
        for seen in expect["engine_saw"]:
            if seen.get("peer_closed"):
                engine = engines[seen["engine"]]
                wait_for(lambda e=engine: e.requests and e.requests[-1].peer_closed_at, 3, "engine side closed")
    if lines_due:
        try:
            wait_for(lambda: len(router.log_lines()) >= lines_due, 3, f"{lines_due} access-log lines")
        except AssertionError:
            pass  # a missing line is a difference, which the comparison reports
    lines = router.log_lines()[lines_due - 1 if lines_due else 0:]
    seen = sorted((s for name, e in engines.items() for s in e.requests[seen_before[name]:]), key=lambda s: s.at)
    return {
        "status": response.status,
        "ended": response.ended,
        "framing": response.framing,
        "headers": [(n.lower(), v.replace(router.slot.prefix, "127.0.1.")) for n, v in response.headers],
        "body": response.body,
        "interim": response.interim,
        "connection_after": state,
        "engine_saw": [{"engine": s.engine, "request_line": s.request_line,
                        "headers": [(n.lower(), v) for n, v in s.headers],
                        "body": _json(s.body.replace(router.slot.prefix.encode(), b"127.0.1.")), "peer_closed": s.peer_closed_at is not None} for s in seen],
        "log": lines[0] if lines and expect.get("access_log_json") else (lines or None),
        "counters": counters_of(router),
    }


def _json(body):
    if not body:
        return None
    try:
        return json.loads(body)
    except ValueError:
        return body
