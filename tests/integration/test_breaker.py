"""The passive breaker: what counts, what does not, and how a pod comes back."""

import time

import pytest
from support.engine import SSE_HEAD, answer, chunk, content_event, stream, vllm_metrics
from support.router import SLOW, wait_for
from support.wire import request_bytes

# a-1 is always preferred as long as it may be: its cache is empty, the other's is full.
METRICS = [vllm_metrics(kv=0.0), vllm_metrics(kv=0.9)]
GPU_ONLY = """\
scheduler:
  plugins:
    Score:
      enabled:
        - {name: gpu-usage, weight: 1}
"""
FAST = ["--breaker-failures=3", "--breaker-open=300ms", "--breaker-probes=2", "--breaker-ramp=400ms"]
GOOD = answer("good")
BAD = answer("no", "500 X")


@pytest.fixture(name="pair")
def _pair(stack):
    def make(script, flags=(), **kw):
        made = stack(2, config=kw.pop("config", GPU_ONLY), flags=[*FAST, *flags], metrics=METRICS, **kw)
        made.engines[0].answers = [script]
        made.engines[1].answers = [GOOD]
        made.engine.wait_scrapes(1)
        return made

    return make


def asked(made):
    return [len(e.requests) for e in made.engines]


def breaker(made, pod="a-1"):
    pods = made.router.debug("/debug/pods").json()["pods"]
    return next(p["breaker"] for p in pods if p["name"] == pod)


CUT_STREAM = [{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_ms": 20}, {"reset": True}]
OWN_FAILURES = {
    "500": BAD,
    "503": answer("no", "503 X"),
    "connection closed": [{"close": True}],
    "connection reset": [{"reset": True}],
    "half a head": [{"send": "HTTP/1.1 200 OK\r\nConte"}, {"close": True}],
    "no head": [{"send": "garbage\r\n\r\n"}, {"close": True}],
    "body cut": [{"send": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123"}, {"wait_ms": 20}, {"close": True}],
    "stream cut": CUT_STREAM,
    "header time-out": [{"hang": True}],
}


@pytest.mark.parametrize("name", OWN_FAILURES)
def test_own_failures_in_a_row_take_a_pod_out(pair, name):
    flags = ["--response-header-timeout=150ms"] if name == "header time-out" else []
    made = pair(OWN_FAILURES[name], [*flags, "--breaker-open=1h", "--breaker-open-max=1h"])
    for _ in range(3):
        made.router.chat()
    assert asked(made)[0] == 3
    made.router.wait_metric("warmroute_breaker_state", 1, pod="golden/a-1")
    assert breaker(made) == "open" and breaker(made, "a-2") == "closed"
    for _ in range(4):
        response = made.router.chat()
        assert (response.status, response.text) == (200, "good")
    assert asked(made)[0] == 3
    assert made.router.metric("warmroute_breaker_transitions_total", pod="golden/a-1", to="open") == 1
    made.router.wait_stderr("breaker of pod golden/a-1: open")


def test_refused_connections_take_a_pod_out(pair):
    made = pair(GOOD, ["--breaker-open=1h", "--breaker-open-max=1h"])
    made.engine.stop()
    for _ in range(6):
        assert made.router.chat().text == "good"
    assert breaker(made) == "open"
    assert made.router.metric("warmroute_upstream_retries_total") == 3


NOT_ITS_FAULT = {"400": "400 X", "401": "401 X", "404": "404 X", "413": "413 X", "422": "422 X", "429": "429 X"}


@pytest.mark.parametrize("name", NOT_ITS_FAULT)
def test_client_errors_and_429_never_count(pair, name):
    made = pair(answer("no", NOT_ITS_FAULT[name]))
    for _ in range(8):
        made.router.chat()
    assert asked(made)[0] == 8
    assert breaker(made) == "closed"
    # Nor do they forgive: two failures, a client error, a failure.
    for script in (BAD, BAD, answer("no", NOT_ITS_FAULT[name]), BAD):
        made.engine.answers = [script]
        made.router.chat()
    assert breaker(made) == "open"


def test_clients_that_leave_never_count(pair):
    made = pair([{"send": SSE_HEAD}, chunk(content_event("a")), {"hang": True}])
    for number in range(4):
        with made.router.connect() as conn:  # in mid-stream
            conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "messages": [], "stream": True}))
            conn.read_head()
            conn.reset()
        made.engine.wait_peer_closed(number)
    made.engine.answers = [[{"hang": True}]]
    for number in range(4, 8):
        with made.router.connect() as conn:  # before the head
            conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "messages": []}))
            made.engine.wait_requests(number + 1)
        made.engine.wait_peer_closed(number)
    assert breaker(made) == "closed"
    assert made.router.metric("warmroute_attempts_total", outcome="client_left") == 8


def test_total_timeout_of_a_flowing_answer_does_not_count(pair):
    made = pair(stream([content_event("x")] * 20, gap_ms=50), ["--total-timeout=300ms"])
    for _ in range(4):
        made.router.chat(stream=True)
    assert asked(made)[0] == 4
    assert breaker(made) == "closed"


def test_a_complete_answer_starts_the_count_anew(pair):
    made = pair(BAD)
    for script in (BAD, BAD, GOOD, BAD, BAD):
        made.engine.answers = [script]
        made.router.chat()
    assert breaker(made) == "closed"


def test_a_pod_comes_back_gently(pair):
    made = pair(BAD)
    for _ in range(3):
        made.router.chat()
    assert breaker(made) == "open"
    before = asked(made)[0]
    made.engine.answers = [GOOD]
    wait_for(lambda: made.router.chat().status == 200 and breaker(made) == "ramping", 5, "ramp", 0.03)
    assert asked(made)[0] >= before + 2  # two good probes
    wait_for(lambda: made.router.chat().status == 200 and breaker(made) == "closed", 5, "closed", 0.03)
    # The end of the ramp is counted by the request that meets it; until then a share may still go elsewhere, by a clock
    # that is some milliseconds late.
    closed = lambda: made.router.metric("warmroute_breaker_transitions_total", pod="golden/a-1", to="closed")
    wait_for(lambda: made.router.chat().status == 200 and closed() == 1, 5, "the end of the ramp", 0.03)
    count = asked(made)[0]
    for _ in range(5):
        made.router.chat()
    assert asked(made)[0] == count + 5
    for to in ("open", "half-open", "ramping"):
        made.router.wait_metric("warmroute_breaker_transitions_total", 1, pod="golden/a-1", to=to)
    made.router.wait_metric("warmroute_breaker_state", 0, pod="golden/a-1")


def test_only_a_few_requests_probe_a_pod_at_once(pair):
    made = pair(BAD)
    for _ in range(3):
        made.router.chat()
    made.engine.answers = [[{"wait_ms": 1500}, *GOOD]]
    time.sleep(0.4 * SLOW)
    conns = [made.router.connect() for _ in range(10)]
    for conn in conns:
        conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "messages": []}))
    for conn in conns:
        assert conn.read_response().text == "good"
        conn.close()
    assert asked(made) == [3 + 2, 3 + 8]


def test_failing_probes_keep_it_out_longer_and_cost_no_client_anything(pair):
    made = pair(BAD)
    end = time.monotonic() + 2 * SLOW
    count = 0
    while time.monotonic() < end or count <= 20:
        assert made.router.chat().text == "good"
        count += 1
        time.sleep(0.01)
    # 300, 600, 1200, ... ms: a handful of tries instead of one per request.
    assert asked(made)[0] < 3 + 2 * (3 + SLOW)


def test_when_every_pod_is_out_requests_are_sent_all_the_same(pair):
    made = pair(BAD, ["--breaker-open=1h", "--breaker-open-max=1h"])
    made.engines[1].answers = [BAD]
    for _ in range(4):
        made.router.chat()
    assert breaker(made) == breaker(made, "a-2") == "open"
    response = made.router.chat()
    assert (response.status, response.text) == (500, "no")
    for engine in made.engines:
        engine.answers = [GOOD]
    response = made.router.chat()
    assert (response.status, response.text) == (200, "good")
    assert breaker(made) == "ramping"  # it answered well: that counts


def test_off_with_compat_and_by_flag(stack):
    for flags in (["--compat=kthena"], ["--breaker-failures=0"]):
        made = stack(2, config=GPU_ONLY, flags=flags, metrics=METRICS)
        made.engine.answers = [BAD]
        made.engines[1].answers = [GOOD]
        made.engine.wait_scrapes(1)
        for _ in range(12):
            assert made.router.chat().text == "good"
        assert asked(made)[0] == 12
        assert breaker(made) == "off"
        assert "warmroute_breaker" not in made.router.metrics_text()
    made = stack(2, config=GPU_ONLY, flags=["--compat=kthena", "--breaker-failures=2"], metrics=METRICS)
    made.engine.answers = [BAD]
    made.engines[1].answers = [GOOD]
    made.engine.wait_scrapes(1)
    for _ in range(5):
        made.router.chat()
    assert asked(made)[0] == 2


def test_series_go_with_the_pod_and_a_new_incarnation_starts_closed(pair):
    made = pair(BAD, ["--breaker-open=1h", "--breaker-open-max=1h"])
    for _ in range(3):
        made.router.chat()
    made.router.wait_metric("warmroute_breaker_state", 1, pod="golden/a-1")
    made.engine.answers = [GOOD]
    path = made.router.resource_dir + "/world.yaml"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    made.router.write_resource("world.yaml", text.replace("name: a-1\n", "name: a-9\n"))
    wait_for(lambda: 'pod="golden/a-1"' not in made.router.metrics_text(), 10, "series gone")
    made.router.write_resource("world.yaml", text)
    wait_for(lambda: any(p["name"] == "a-1" for p in made.router.debug("/debug/pods").json()["pods"]), 10, "back")
    assert breaker(made) == "closed"
    assert made.router.metric("warmroute_breaker_transitions_total", pod="golden/a-1") == 0
