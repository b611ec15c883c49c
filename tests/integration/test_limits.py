"""Limits follow the machine (decisions 3.19, 3.20)."""

import os
import re
import resource
import subprocess
import threading

from support.engine import answer
from support.router import SLOW, wait_for
from support.wire import WireTimeout, request_bytes


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


def test_connection_limit(stack):
    made = stack(flags=["--max-connections=20"])
    conns = []
    for _ in range(40):
        try:
            conns.append(made.router.connect(timeout=2))
        except OSError:
            break
    served = 0
    for conn in conns:
        try:
            conn.send(request_bytes("GET", "/healthz"))
            served += conn.read_response("GET", timeout=0.5).status == 200
        except (OSError, WireTimeout):
            pass
    assert 1 <= served <= 20
    for conn in conns:
        conn.close()
    wait_for(lambda: made.router.try_get("/healthz").status == 200, 5)


def test_workers_flag(stack):
    made = stack(flags=["--workers=3"])
    assert made.router.chat().status == 200
    made.router.wait_stderr("Flag: workers, Value: 3")
