"""max-in-flight and the waiting queue: the limit holds, the line moves in order, and every wait ends."""

import json
import random
import threading
import time

import pytest
from support import world
from support.engine import SSE_HEAD, answer, chunk, content_event, vllm_metrics
from support.router import SLOW, wait_for
from support.wire import Conn, request_bytes

HELD = [{"hang": True}]


def config(limit):
    return f"""\
scheduler:
  pluginConfig:
  - name: max-in-flight
    args: {{maxInFlight: {limit}}}
  plugins:
    Filter:
      enabled: [max-in-flight]
    Score:
      enabled:
        - {{name: least-request, weight: 1}}
"""


class Load:
    """Counts what an engine works on at once: from its arrival until before the last bytes of its answer."""

    def __init__(self, made):
        self.lock = threading.Lock()
        self.now = {e.name: 0 for e in made.engines}
        self.most = dict(self.now)
        self.order = []
        for engine in made.engines:
            engine.on_request = self.on_request

    def on_request(self, seen):
        with self.lock:
            self.order.append(json.loads(seen.body)["prompt"])
            self.now[seen.engine] += 1
            self.most[seen.engine] = max(self.most[seen.engine], self.now[seen.engine])

    def over(self, seen):
        with self.lock:
            self.now[seen.engine] -= 1

    def counted(self, script):
        """Counts down in front of the script's last step."""
        last = next((i for i, step in enumerate(script) if "reset" in step), len(script) - 1)
        return [*script[:last], {"call": self.over}, *script[last:]]


def start(made, prompt, **members):
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": prompt, **members}))
    return conn


def waiting(made):
    return made.router.metric("warmroute_queue_waiting", model_server="golden/ms-a")


def wait_waiting(made, count):
    made.router.wait_metric("warmroute_queue_waiting", count, model_server="golden/ms-a")


def rejected(made, reason):
    return made.router.metric("warmroute_queue_rejected_total", model_server="golden/ms-a", reason=reason)


def in_flight(made):
    return sum(p["inFlight"] for p in made.router.debug("/debug/pods").json()["pods"])


def gated(go):
    return [{"wait_for": go}, *answer("ok")]


@pytest.mark.parametrize("workers", [1, 4])
def test_first_come_first_served(stack, workers):
    made = stack(1, config=config(2), flags=[f"--workers={workers}"])
    load = Load(made)
    gates = [threading.Event() for _ in range(10)]
    made.engine.answers = [load.counted(gated(g)) for g in gates]
    conns = []
    for number in range(10):
        conns.append(start(made, str(number)))
        if number < 2:
            made.engine.wait_requests(number + 1)
        else:
            wait_waiting(made, number - 1)
    assert in_flight(made) == 2
    for number in range(10):
        gates[number].set()
        assert conns[number].read_response().text == "ok"
        made.engine.wait_requests(min(number + 3, 10))
    assert load.order == [str(n) for n in range(10)]
    assert load.most == {"a-1": 2}
    assert in_flight(made) == 0 and waiting(made) == 0
    assert made.router.metric("warmroute_queue_wait_seconds_count", model_server="golden/ms-a") == 8


def test_a_pod_that_ramps_up_changes_no_order(stack):
    """While it recovers, a pod's slots are given out one by one over the ramp, and still to the first who waits."""
    made = stack(2, config=config(4).replace("{name: least-request, weight: 1}", "{name: gpu-usage, weight: 1}"),
                 metrics=[vllm_metrics(kv=0.0), vllm_metrics(kv=0.9)],
                 flags=["--breaker-failures=1", "--breaker-open=100ms", "--breaker-probes=1", "--breaker-ramp=3s"])
    made.engine.wait_scrapes(1)
    a, b = made.engines
    b.answers, a.answers = [answer("ok")], [answer("no", "503 X"), answer("ok")]
    for _ in range(2):  # fails and opens; a good probe begins the ramp
        wait_for(lambda: made.router.chat().text == "ok" and len(a.requests) > 1, 5, "the probe", 0.02)
    order, gate = [], threading.Event()

    def on_request(seen):
        order.append(json.loads(seen.body)["prompt"])
        return gated(gate)

    a.on_request = b.on_request = on_request
    conns = []
    for number in range(16):  # 4 and 4 are served, the others wait
        conns.append(start(made, str(number)))
        wait_for(lambda count=number + 1: len(order) + waiting(made) >= count, 5, "a place")
    wait_for(lambda: len(order) == 8, 10, "the whole ramp")
    assert order == [str(number) for number in range(8)]
    gate.set()
    assert all(conn.read_response().text == "ok" for conn in conns)
    assert in_flight(made) == 0


@pytest.mark.alone
def test_who_waits_for_one_pod_holds_nobody_up(stack):
    made = stack(2, config=config(2), flags=["--breaker-failures=0"])
    free_a, free_b = threading.Event(), threading.Event()
    a, b = made.engines
    a.answers = [gated(free_a), gated(free_a), answer("no", "503 X"), answer("ok")]
    b.answers = [gated(free_b)]
    held = [start(made, "held") for _ in range(4)]
    a.wait_requests(2)
    b.wait_requests(2)
    free_a.set()
    wait_for(lambda: in_flight(made) == 2, 5, "the first pod free")
    stuck = start(made, "stuck")  # refused by the first pod, so it needs the other one, which is full
    wait_waiting(made, 1)
    started = time.monotonic()
    for _ in range(10):
        assert made.router.chat(model="m-a", path="/v1/completions", prompt="x").text == "ok"
    assert time.monotonic() - started < 0.5 * SLOW
    free_b.set()
    assert stuck.read_response().text == "ok"
    assert all(conn.read_response().text == "ok" for conn in held)


@pytest.mark.parametrize("leaving", [0, 0.25])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_limit_is_never_exceeded_and_no_slot_is_lost(stack, seed, leaving):
    """Clients, engines and faults at random: at most `limit` at once per pod, and at the end everything is free.

    When clients leave, an engine learns of it a moment after the slot was given on: then the router's count is looked
    at instead of the engine's.
    """
    rng = random.Random(seed)
    made = stack(3, config=config(2), flags=["--workers=4", "--queue-length=1000", "--breaker-failures=0"])
    load = Load(made)
    scripts = [answer("ok"), [{"wait_ms": 5}, *answer("ok")], [{"wait_ms": 20}, *answer("ok")],
               answer("no", "500 X"), [{"reset": True}],
               [{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_ms": 10}, {"reset": True}]]
    for engine in made.engines:
        engine.answers = [load.counted(rng.choice(scripts)) for _ in range(400)] + [load.counted(answer("ok"))]
    plans = [[(rng.random(), rng.random()) for _ in range(25)] for _ in range(24)]
    odd = []

    def client(plan):
        for leaves, patience in plan:
            with made.router.connect(timeout=20 * SLOW) as conn:
                conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
                if leaves < leaving:
                    time.sleep(patience * 0.03)
                    conn.reset()
                    continue
                response = conn.read_response()
                if response.ended == "timeout" or response.status is None:
                    odd.append(response)

    threads = [threading.Thread(target=client, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for pod in made.router.debug("/debug/pods").json()["pods"]:
            assert pod["inFlight"] <= 2
    assert not odd
    assert max(load.most.values()) == 2 if leaving == 0 else max(load.most.values()) >= 2
    wait_for(lambda: in_flight(made) == 0 and waiting(made) == 0, 5, "everything free")
    for _ in range(20):  # and served at once
        assert made.router.chat(model="m-a", path="/v1/completions", prompt="x").status in (200, 500, 503)


def test_the_deadline_and_an_honest_retry_after(stack):
    made = stack(1, config=config(1), flags=["--queue-timeout=700ms"])
    made.engine.answers = [[{"hang": True}]]
    with start(made, "held"):
        made.engine.wait_requests(1)
        began = time.monotonic()
        response = made.router.chat()
        assert 0.6 < time.monotonic() - began < 2 * SLOW
        assert response.status == 503
        assert response.error["code"] == "queue_timeout" and response.error["type"] == "overloaded_error"
        assert int(response.headers.get("Retry-After")) == 1  # nothing moved: the time-out, rounded up
        assert rejected(made, "timeout") == 1 and waiting(made) == 0
        line = made.router.wait_log()[0]
        assert line["status_code"] == 503 and line["error"]["type"] == "queue_timeout"


def test_retry_after_follows_the_drain_rate(stack):
    made = stack(1, config=config(1), flags=["--queue-length=4"])
    made.engine.answers = [[{"wait_ms": 1000}, *answer("ok")]]
    conns = [start(made, "0")]
    made.engine.wait_requests(1)
    for number in range(1, 5):
        conns.append(start(made, str(number)))
        wait_waiting(made, number)
    refused = made.router.chat()
    assert (refused.status, refused.error["code"]) == (503, "queue_full")
    assert refused.headers.get("Retry-After") == "30"  # nothing is known yet but the queue's time-out
    made.engine.wait_requests(3)
    conns.append(start(made, "5"))
    conns.append(start(made, "6"))
    wait_waiting(made, 4)
    refused = made.router.chat()
    # One a second and four in front: about five seconds.
    assert refused.status == 503 and 3 <= int(refused.headers.get("Retry-After")) <= 8 * SLOW
    assert rejected(made, "full") == 2
    for conn in conns:
        assert conn.read_response().text == "ok"


def test_the_line_is_bounded_in_bytes(stack):
    made = stack(1, config=config(1), flags=["--queue-bytes=10000"])
    go = threading.Event()
    made.engine.answers = [gated(go)]
    first = start(made, "held")
    made.engine.wait_requests(1)
    second = start(made, "x" * 8000)
    wait_waiting(made, 1)
    refused = made.router.chat(path="/v1/completions", prompt="x" * 3000)
    assert (refused.status, refused.error["code"]) == (503, "queue_full")
    assert rejected(made, "bytes") == 1
    third = start(made, "x")
    wait_waiting(made, 2)
    go.set()
    for conn in (first, second, third):
        assert conn.read_response().text == "ok"
    made.router.wait_metric("warmroute_buffered_request_bytes", 0)


def test_without_a_queue_requests_are_refused_at_once(stack):
    made = stack(2, config=config(1), flags=["--queue-length=0"])
    go = threading.Event()
    for engine in made.engines:
        engine.answers = [gated(go)]
    conns = [start(made, "a"), start(made, "b")]
    wait_for(lambda: in_flight(made) == 2, 5, "both busy")
    refused = made.router.chat()
    assert (refused.status, refused.error["code"], refused.headers.get("Retry-After")) == (503, "queue_full", "1")
    go.set()
    for conn in conns:
        assert conn.read_response().text == "ok"


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_client_that_leaves_gives_its_place_up(stack, how):
    made = stack(1, config=config(1))
    go = threading.Event()
    made.engine.answers = [gated(go)]
    first = start(made, "held")
    made.engine.wait_requests(1)
    second = start(made, "leaves")
    wait_waiting(made, 1)
    third = start(made, "stays")
    wait_waiting(made, 2)
    second.reset() if how == "reset" else second.close()
    wait_waiting(made, 1)
    go.set()
    assert first.read_response().text == "ok" and third.read_response().text == "ok"
    assert [json.loads(r.body)["prompt"] for r in made.engine.requests] == ["held", "stays"]
    assert rejected(made, "client_left") == 1
    line = made.router.wait_log(3)
    assert sorted(entry["status_code"] for entry in line) == [200, 200, 499]


def test_pods_that_come_serve_those_who_wait_and_pods_that_vanish_end_it(stack):
    made = stack(1, config=config(1))
    made.engine.answers = [HELD]
    held = start(made, "held")
    made.engine.wait_requests(1)
    waits = [start(made, "w1")]
    wait_waiting(made, 1)
    waits.append(start(made, "w2"))
    wait_waiting(made, 2)
    go = threading.Event()
    from support.engine import Engine  # pylint: disable=import-outside-toplevel
    with Engine(made.slot.ip(2), answers=[gated(go)], name="a-2") as other:
        docs = [world.model_server("ms-a", "a", model="real-a"), world.route("mr-a", "m-a", "ms-a")]
        made.router.write_resource("world.yaml", world.join(
            *docs, world.pod("a-1", made.slot.ip(1), "a"), world.pod("a-2", made.slot.ip(2), "a")))
        other.wait_requests(1)
        wait_waiting(made, 1)
        assert json.loads(other.requests[0].body) == {"model": "real-a", "prompt": "w1"}
        go.set()
        assert waits[0].read_response().text == "ok"
        assert waits[1].read_response().text == "ok"
        waits = [start(made, "w3"), start(made, "w4")]
        for conn in waits:
            assert conn.read_response().text == "ok"
        made.engines.append(other)
        other.answers = [HELD]
        last = start(made, "held too")
        wait_for(lambda: in_flight(made) == 2, 5, "both busy")
        waits = [start(made, "w5")]
        wait_waiting(made, 1)
        made.router.write_resource("world.yaml", world.join(*docs))
        response = waits[0].read_response()
        assert response.status == 503 and "no available pods" in response.error["message"]
        assert rejected(made, "no_pods") == 1 and waiting(made) == 0
        last.close()
        held.close()


def test_a_failed_try_waits_for_another_pod_instead_of_failing_the_request(stack):
    made = stack(2, config=config(1), flags=["--breaker-failures=0"])
    go = threading.Event()
    made.engines[0].answers = [gated(go)]
    made.engines[1].answers = [gated(go)]
    conns = [start(made, "a"), start(made, "b")]
    wait_for(lambda: in_flight(made) == 2, 5, "both busy")
    made.engines[1].stop()  # its request fails, and its slot is free for requests that fail, too
    made.engines[0].wait_requests(1)
    wait_waiting(made, 1)
    waits = [start(made, "c"), start(made, "d")]
    wait_waiting(made, 3)
    go.set()
    for conn in [*conns, *waits]:
        assert conn.read_response().text == "ok"
    assert in_flight(made) == 0


def test_who_waits_when_the_drain_ends_is_let_go(stack):
    made = stack(1, config=config(1), env={"DRAIN_TIMEOUT": "1s"})
    made.engine.answers = [HELD]
    with start(made, "held"), start(made, "waits") as second:
        made.engine.wait_requests(1)
        wait_waiting(made, 1)
        made.router.signal(2)
        assert made.router.wait_exit(8) == 0
        assert second.read_response().ended in ("closed_without_response", "reset")


def test_who_waits_during_the_drain_is_served(stack):
    made = stack(1, config=config(1))
    go = threading.Event()
    made.engine.answers = [gated(go)]
    with start(made, "held") as first, start(made, "waits") as second:
        made.engine.wait_requests(1)
        wait_waiting(made, 1)
        made.router.signal(2)
        time.sleep(0.2)
        go.set()
        assert first.read_response().text == "ok" and second.read_response().text == "ok"
        assert made.router.wait_exit(8) == 0


def test_servers_do_not_wait_for_each_other(stack):
    text = lambda slot: world.join(  # noqa: E731
        world.model_server("ms-a", "a"), world.model_server("ms-b", "b"), world.pod("a-1", slot.ip(1), "a"),
        world.pod("b-1", slot.ip(2), "b"), world.route("mr-a", "m-a", "ms-a"), world.route("mr-b", "m-b", "ms-b"))
    made = stack(2, config=config(1), resources=text)
    made.engine.answers = [HELD]
    with start(made, "held"), start(made, "waits"):
        made.engine.wait_requests(1)
        wait_waiting(made, 1)
        assert made.router.chat(model="m-b").status == 200


@pytest.mark.parametrize("args", ["{}", "{maxInFlight: 0}", "{maxInFlight: x}"])
def test_a_bad_limit_stops_the_start(stack, args):
    made = stack(1, config=config(1).replace("{maxInFlight: 1}", args), wait_ready=False)
    assert made.router.wait_exit(5) != 0
    made.router.wait_stderr("max-in-flight")
