"""Limits follow the machine (decisions 3.19, 3.20)."""

import gzip
import os
import re
import resource
import subprocess
import threading
import time

import pytest
from support.engine import answer
from support.router import SLOW, wait_for
from support.wire import request_bytes


def test_buffered_bodies_are_bounded(stack):
    gate = threading.Event()
    made = stack(flags=["--max-buffered-bytes=3000000"], answers=[[{"wait_for": gate}, *answer("ok")]])
    body = b'{"model":"m-a","prompt":"' + b"x" * 1_000_000 + b'"}'
    conns = []
    for number in range(2):
        conns.append(made.router.connect())
        conns[-1].send(request_bytes("POST", "/v1/completions", body))
        made.engine.wait_requests(number + 1)
    refused = None
    for _ in range(3):
        with made.router.connect() as conn:
            try:
                conn.send(request_bytes("POST", "/v1/completions", body))
            except OSError:
                pass
            response = conn.read_response(timeout=2)
            if response.status == 503:
                refused = response
                break
        conns.append(conn)
    assert refused is not None and refused.headers.get("Retry-After")
    assert refused.error["type"] == "overloaded_error"
    gate.set()
    for conn in conns[:2]:
        assert conn.read_response().status == 200
        conn.close()
    wait_for(lambda: made.router.post("/v1/completions", body).status == 200, 5, "room again")


def test_limits_are_logged(stack):
    made = stack()
    text = made.router.stderr()
    assert re.search(r"(?i)descriptor|nofile", text)
    assert re.search(r"(?i)connection", text)


def test_soft_descriptor_limit_is_raised(stack):
    made = stack(start=False)

    def low():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096))

    with open(made.router.stderr_path, "ab") as err:
        made.router.process = subprocess.Popen(made.router.command, env=made.router.env, stderr=err,
                                               stdout=subprocess.DEVNULL, preexec_fn=low)
    made.router.wait_ready()
    with open(f"/proc/{made.router.process.pid}/limits", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("Max open files"))
    assert line.split()[3:5] == ["4096", "4096"]


@pytest.mark.alone
def test_running_out_of_descriptors_does_not_spin(stack):
    made = stack(start=False)

    def low():
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with open(made.router.stderr_path, "ab") as err:
        made.router.process = subprocess.Popen([*made.router.command, "--workers=1", "--max-connections=100000"],
                                               env=made.router.env, stderr=err, stdout=subprocess.DEVNULL,
                                               preexec_fn=low)
    made.router.wait_ready()
    conns = []
    for _ in range(100):
        try:
            conns.append(made.router.connect(timeout=2))
        except OSError:
            break

    def ticks():
        with open(f"/proc/{made.router.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before = ticks()
    threading.Event().wait(1.0)
    assert ticks() - before < 0.4 * SLOW
    for conn in conns:
        conn.close()
    wait_for(lambda: made.router.try_get("/healthz").status == 200, 5, "accepting again")


def test_requests_beyond_the_connection_limit_are_refused_kindly(stack):
    """The answer is a complete 503 to the request; health probes are served; there is room again afterwards."""
    made = stack(flags=["--max-connections=20"])
    made.router.wait_metric("warmroute_client_connections", 0)
    conns = [made.router.connect() for _ in range(20)]
    made.router.wait_metric("warmroute_client_connections", 20)
    for method in ("POST", "GET"):
        with made.router.connect() as conn:
            body = {"model": "m-a", "prompt": "x" * 100_000} if method == "POST" else b""
            conn.send(request_bytes(method, "/v1/completions", body))
            response = conn.read_response(method)
            assert (response.status, response.headers.get("Connection")) == (503, "close")
            assert response.headers.get("Retry-After") == "1"
            assert response.error["type"] == "overloaded_error"
            assert conn.wait_end() == "closed"
    for path in ("/healthz", "/readyz"):
        assert made.router.get(path).status == 200
    assert made.router.metric("warmroute_connections_refused_total") == 4
    assert made.asked() == []
    for conn in conns:
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
        assert conn.read_response().status == 200  # those inside the limit notice nothing
        conn.close()
    wait_for(lambda: made.router.chat().status == 200, 5)


def test_idle_connections_beyond_the_limit_are_bounded_and_leave_soon(stack):
    made = stack(flags=["--max-connections=20"])
    made.router.wait_metric("warmroute_client_connections", 0)
    conns = [made.router.connect() for _ in range(20 + 64)]
    made.router.wait_metric("warmroute_client_connections", 84)
    with made.router.connect() as conn:
        response = conn.read_response()  # at once, whatever it would have asked
        assert (response.status, response.ended, response.error["code"]) == (503, "complete", "overloaded")
        assert response.headers.get("Retry-After") == "1"
    started = time.monotonic()
    assert [conn.wait_end(5 * SLOW) for conn in conns[20:]] == ["closed"] * 64
    assert time.monotonic() - started < 4 * SLOW
    assert made.router.get("/healthz").status == 200
    assert conns[0].wait_end(0.1) == "open"
    for conn in conns:
        conn.close()


def test_a_head_limit_of_the_operators_own(stack):
    made = stack(flags=["--max-head-bytes=2KiB"])
    fits = request_bytes("GET", "/healthz", headers=[("X-Fill", "a")])
    for size, status in ((2048, 200), (2049, 431)):
        head = request_bytes("GET", "/healthz", headers=[("X-Fill", "a" * (size - len(fits) + 1))])
        assert len(head) == size and made.router.send_raw(head, "GET").status == status


@pytest.mark.parametrize("body", [
    b"1;" + b"e" * 200_000 + b"\r\nZ\r\n0\r\n\r\n",
    b"0\r\nX-Trailer: " + b"t" * 200_000,
    b"0\r\n" + b"".join(b"X-%d: t\r\n" % n for n in range(30000)),
])
def test_what_surrounds_chunks_is_bounded(stack, body):
    made = stack()
    with made.router.connect() as conn:
        conn.send(b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n" + body)
        response = conn.read_response()
        assert (response.status, response.headers.get("Connection")) == (400, "close")
    assert made.asked() == []


def test_a_body_of_tiny_chunks_is_taken_in_linear_time(stack):
    made = stack(flags=["--workers=1"])
    body = b'{"model":"m-a","prompt":"' + b"x" * 300_000 + b'"}'
    data = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    started = time.monotonic()
    with made.router.connect() as conn:
        conn.send(b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
        assert conn.read_response(timeout=20).status == 200
    assert time.monotonic() - started < 3 * SLOW
    assert made.engine.requests[0].body == body.replace(b'"m-a"', b'"real-a"')


def test_header_time_out_of_the_router(stack):
    made = stack(1, flags=["--response-header-timeout=300ms"], answers=[[{"hang": True}]])
    started = time.monotonic()
    assert made.router.chat().status == 504
    assert 0.25 < time.monotonic() - started < 3 * SLOW


def test_gzip_counts_against_the_buffered_bytes_decoded(stack):
    made = stack(flags=["--max-buffered-bytes=3000000"])
    packed = gzip.compress(b'{"model":"m-a","prompt":"' + b"x" * 4_000_000 + b'"}')
    response = made.router.post("/v1/completions", packed, [("Content-Encoding", "gzip")])
    assert (response.status, response.error["type"]) == (503, "overloaded_error")
    made.router.wait_metric("warmroute_buffered_request_bytes", 0)
    assert made.router.chat().status == 200


def test_bodies_that_are_announced_and_not_sent_take_no_memory(stack):
    made = stack()
    before = made.router.rss_bytes()
    conns = [made.router.connect() for _ in range(100)]
    for conn in conns:
        conn.send(b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 60000000\r\n\r\n{")
    made.router.wait_metric("warmroute_client_connections", 100)
    time.sleep(0.2)
    assert made.router.rss_bytes() - before < 10e6 * SLOW
    for conn in conns:
        conn.close()


def test_idle_connections_take_little_memory(stack):
    made = stack()
    request = request_bytes("GET", "/healthz")
    first = made.router.connect()
    first.send(request)
    first.read_response("GET")
    before = made.router.rss_bytes()
    conns = [made.router.connect() for _ in range(500)]
    for conn in conns:
        conn.send(request)
        assert conn.read_response("GET").status == 200
    # a sanitizer pads and keeps what was freed
    assert made.router.rss_bytes() - before < 500 * (8192 if SLOW == 1 else 65536)
    for conn in [first, *conns]:
        conn.close()


def test_workers_flag(stack):
    made = stack(flags=["--workers=3"])
    assert made.router.chat().status == 200
    made.router.wait_stderr("Flag: workers, Value: 3")
