"""Prefill/decode under load: the in-flight limit of both roles, the line of those who wait, and breakers beside it."""

import json
import threading

import pytest
from support.engine import answer, chat
from support.pd import PREFILLED
from support.router import wait_for
from support.wire import request_bytes

LIMIT_1 = """\
scheduler:
  pluginConfig:
  - name: max-in-flight
    args: {maxInFlight: 1}
  plugins:
    Filter:
      enabled: [max-in-flight]
    Score:
      enabled:
        - {name: gpu-usage, weight: 1}
"""
GOOD = chat("decoded")


def start(made, content):
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/chat/completions",
                            {"model": "m", "messages": [{"role": "user", "content": content}]}))
    return conn


def waiting(made):
    return made.router.metric("warmroute_queue_waiting", model_server="golden/ms")


def wait_waiting(made, count):
    made.router.wait_metric("warmroute_queue_waiting", count, model_server="golden/ms")


def served(engine):
    return [json.loads(seen.body)["messages"][0]["content"] for seen in engine.requests]


def test_requests_wait_in_order_for_a_pair(pairs):
    for connector in ("http", "sglang"):
        made = pairs(connector, ((1, 1),), config=LIMIT_1)
        gates = [threading.Event() for _ in range(4)]
        made.d1a.answers = [[{"wait_for": gate}, *GOOD] for gate in gates]
        conns = []
        for number in range(4):
            conns.append(start(made, str(number)))
            if number == 0:
                made.d1a.wait_requests(1)
            else:
                wait_waiting(made, number)
        for number in range(4):
            gates[number].set()
            assert conns[number].read_response().status == 200
            made.d1a.wait_requests(min(number + 2, 4))
        assert served(made.d1a) == served(made.p1a) == ["0", "1", "2", "3"]
        assert made.router.metric("warmroute_queue_wait_seconds_count", model_server="golden/ms") == 3
        assert waiting(made) == 0
        made.assert_settled()


def test_full_prefill_pods_are_waited_for_too(pairs):
    made = pairs("http", ((1, 2),), config=LIMIT_1)
    gate = threading.Event()
    made.p1a.answers = [[{"wait_for": gate}, *PREFILLED]]
    made.d1a.answers = made.d1b.answers = [GOOD]
    conns = [start(made, "0")]
    made.p1a.wait_requests(1)
    conns.append(start(made, "1"))
    wait_waiting(made, 1)
    gate.set()
    assert [conn.read_response().status for conn in conns] == [200, 200]
    made.assert_settled()


def test_a_pair_that_joins_serves_those_who_wait(pairs):
    made = pairs("http", ((1, 1),), config=LIMIT_1)
    gate = threading.Event()
    made.d1a.answers = [[{"wait_for": gate}, *GOOD]]
    first = start(made, "0")
    made.d1a.wait_requests(1)
    second = start(made, "1")
    wait_waiting(made, 1)
    made.add("p2a", "g2", "prefill")
    made.add("d2a", "g2", "decode").answers = [GOOD]
    made.rewrite()
    assert second.read_response().status == 200
    assert made.asked().count("d2a") == 1
    gate.set()
    assert first.read_response().status == 200
    made.assert_settled()


def test_every_wait_for_a_pair_ends(pairs):
    made = pairs("http", ((1, 1),), config=LIMIT_1, flags=["--queue-timeout=700ms", "--queue-length=1"])
    gate = threading.Event()
    made.d1a.answers = [[{"wait_for": gate}, *GOOD]]
    held = start(made, "0")
    made.d1a.wait_requests(1)
    with start(made, "leaves"):
        wait_waiting(made, 1)
        full = made.chat("full")
        assert (full.status, full.error["code"]) == (503, "queue_full")
    wait_waiting(made, 0)
    late = made.chat("late")
    assert (late.status, late.error["code"]) == (503, "queue_timeout")
    for reason in ("full", "client_left", "timeout"):
        assert made.router.metric("warmroute_queue_rejected_total", model_server="golden/ms", reason=reason) == 1
    gate.set()
    assert held.read_response().status == 200
    assert served(made.d1a) == ["0"]
    made.assert_settled()


@pytest.mark.parametrize("connector", ["http", "sglang"])
def test_a_busy_pair_is_waited_for_rather_than_a_failing_one_used(pairs, connector):
    made = pairs(connector, ((1, 1), (1, 1)), config=LIMIT_1,
                 flags=["--breaker-failures=1", "--breaker-open=1h", "--breaker-open-max=1h"])
    gate = threading.Event()
    made.d1a.answers = [[{"wait_for": gate}, *GOOD]]
    made.d2a.answers = [answer("no", "503 X")]
    held = start(made, "0")
    made.d1a.wait_requests(1)
    assert made.chat("opens the breaker of the second decode pod").status == 503
    wait_for(lambda: made.router.metric("warmroute_breaker_state", pod="golden/d2a") == 1, 5, "open")
    conn = start(made, "1")
    wait_waiting(made, 1)
    gate.set()
    assert held.read_response().status == conn.read_response().status == 200
    assert served(made.d1a) == ["0", "1"] and len(made.d2a.requests) == 1
    made.assert_settled()
