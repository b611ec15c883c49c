"""`make run`, without the build: tools/demo/run.py from start to Ctrl-C."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import urllib.request

import pytest
from support import router

ROOT = pathlib.Path(__file__).resolve().parents[2]
BODY = {"model": "demo", "max_tokens": 4, "messages": [
    {"role": "system", "content": "You answer questions about the night sky. " * 12},
    {"role": "user", "content": "How far is Vega?"}]}


def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def start(**ports):
    environment = {**os.environ, "BUILD_DIR": os.path.dirname(router.BINARY), **{k: str(v) for k, v in ports.items()}}
    return subprocess.Popen(["/usr/bin/python3", ROOT / "tools/demo/run.py"], env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


def ask(port):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(BODY).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.headers["x-mock-engine"], json.load(answer)["usage"]["prompt_tokens_details"]["cached_tokens"]


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_run_and_stop():
    port, metrics, debug = free_ports(3)
    demo = start(PORT=port, METRICS_PORT=metrics, DEBUG_PORT=debug)
    children, lines = [], []
    try:
        for line in demo.stdout:
            lines.append(line)
            if "Ctrl-C stops all" in line:
                break
        assert "Ctrl-C stops all" in "".join(lines[-1:]), "".join(lines)
        rest = threading.Thread(target=demo.stdout.read)  # the access log must not fill the pipe
        rest.start()
        children = children_of(demo.pid)
        assert len(children) == 5
        assert re.search(rf"curl -si http://localhost:{port}/v1/chat/completions", "".join(lines))
        first, cached = ask(port)
        assert cached == 0
        for _ in range(5):
            again, cached = ask(port)
            assert again == first and cached > 100
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10) as page:
            shown = [line for line in page.read().decode().splitlines()
                     if re.search(r"prefix_cache_(match_ratio_(sum|count)|entries)", line) and not line.startswith("#")]
        assert any(float(line.rsplit(" ", 1)[1]) > 0 for line in shown if "ratio_sum" in line), shown
    finally:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20 * router.SLOW) == 0
    rest.join()
    assert not [child for child in children if pathlib.Path(f"/proc/{child}").exists()]


@pytest.mark.parametrize("pd, connector", [("1", "nixl"), ("sglang", "sglang")])
def test_run_with_pairs(pd, connector):
    port, metrics, debug = free_ports(3)
    demo = start(PORT=port, METRICS_PORT=metrics, DEBUG_PORT=debug, PD=pd)
    lines = []
    try:
        for line in demo.stdout:
            lines.append(line)
            if "Ctrl-C stops all" in line:
                break
        assert f"prefill/decode with connector {connector}" in "".join(lines)
        assert ask(port)[0] in ("decode-1", "decode-2")
        line = next(line for line in demo.stdout if "prefill_pod=" in line)
        assert re.search(r"selected_pod=decode-\d-\S+ prefill_pod=prefill-\d-", line)
        with urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=10) as page:
            assert "kthena_router_request_prefill_duration_seconds_count" in page.read().decode()
    finally:
        demo.send_signal(signal.SIGINT)
        assert demo.wait(20 * router.SLOW) == 0


def test_bad_connector():
    demo = start(PD="teleport")
    out, _ = demo.communicate(timeout=20)
    assert demo.returncode == 1 and "PD=teleport is neither 1 nor one of http, lmcache, nixl, mooncake, sglang" in out


def test_taken_port():
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]
        demo = start(PORT=port)
        out, _ = demo.communicate(timeout=20)
        assert demo.returncode == 1
        assert f"port {port} is taken; choose another: make run PORT={port + 1}" in out


def test_bad_port():
    demo = start(METRICS_PORT="many")
    out, _ = demo.communicate(timeout=20)
    assert demo.returncode == 1 and "METRICS_PORT=many is not a port" in out
