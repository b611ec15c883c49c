"""`make run PD=1`, without the build."""

import re
import signal
import urllib.request

import pytest
from support import router
from support.demo import ask, free_ports, start

pytestmark = pytest.mark.usefixtures("one_demo")


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
