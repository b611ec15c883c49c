"""`make run`, without the build: tools/demo/run.py from start to Ctrl-C."""

import pathlib
import re
import signal
import socket
import threading
import urllib.request

import pytest
from support import router
from support.demo import ask, free_ports, start

pytestmark = pytest.mark.usefixtures("one_demo")


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
