"""Affinity has a price in load, and load is counted for every request when its pod is chosen (decision 3.9)."""

import collections
import threading

import pytest
from support.engine import answer, vllm_metrics
from support.router import DEFAULT_CONFIG, wait_for
from support.wire import request_bytes

IDLE = vllm_metrics()
LEAST_REQUEST = ("scheduler: {plugins: {Filter: {enabled: []}, Score: {enabled: [{name: least-request, weight: 1}]}}}\n")


class Held:
    """Requests that engines keep until release(); each was counted before the next is sent."""

    def __init__(self, made):
        self.made, self.gate, self.conns = made, threading.Event(), []
        for engine in made.engines:
            engine.on_request = lambda _: [{"wait_for": self.gate}, *answer("ok")]

    def send(self, prompt, path="/v1/completions"):
        before = len(self.made.asked())
        self.conns.append(self.made.router.connect())
        self.conns[-1].send(request_bytes("POST", path, {"model": "m-a", "prompt": prompt}))
        wait_for(lambda: len(self.made.asked()) == before + 1, 10)
        return self.made.asked()[-1]

    def release(self):
        self.gate.set()
        for conn in self.conns:
            assert conn.read_response().status == 200
            conn.close()


SHARED = "You are an assistant of the example company. " * 91


def burst(made):
    """Requests per pod of 100 that share a long beginning and come before any of them is answered."""
    held = Held(made)
    counts = collections.Counter(held.send(f"{SHARED}{number:0200}") for number in range(100))
    held.release()
    return counts


def warm_one(made):
    assert made.router.post("/v1/completions", {"model": "m-a", "prompt": SHARED + "warm"}).status == 200
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") > 0, 5)


def test_a_shared_beginning_spreads_once_every_pod_has_answered(stack):
    """The default weights are the seed's: a match counts as much as load, so the first burst leans to the warm pod."""
    made = stack(4, metrics=[IDLE] * 4)
    warm_one(made)
    assert len(burst(made)) == 4
    made.router.wait_metric("kthena_router_active_requests", 0)
    counts = burst(made)
    assert len(counts) == 4 and max(counts.values()) <= 1.25 * 25, counts


def test_the_price_of_load_can_be_raised(stack):
    made = stack(4, metrics=[IDLE] * 4,
                 config=DEFAULT_CONFIG.replace("- name: least-request\n          weight: 1",
                                               "- name: least-request\n          weight: 5"))
    warm_one(made)
    counts = burst(made)
    assert len(counts) == 4 and max(counts.values()) <= 1.25 * 25, counts


def test_the_warm_pod_wins_among_those_with_little_load(stack):
    made = stack(4, metrics=[IDLE] * 4, env={"METRICS_SCRAPE_INTERVAL": "200ms"})
    prompt = "What does the contract say about delivery dates? " * 60
    assert made.router.post("/v1/completions", {"model": "m-a", "prompt": prompt}).status == 200
    warm = made.asked()[0]
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") > 0, 5)
    busy = [engine for engine in made.engines if engine.name != warm][0]
    for engine in made.engines:
        engine.metrics = vllm_metrics(running={busy.name: 70, warm: 6}.get(engine.name, 5))
    for engine in made.engines:
        engine.wait_scrapes(2)
    for _ in range(5):
        assert made.router.post("/v1/completions", {"model": "m-a", "prompt": prompt}).status == 200
    assert set(made.asked()) == {warm}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings", "/v1/audio/speech", "/v1/inference/generate"])
def test_every_path_is_counted(stack, path):
    made = stack(4, metrics=[IDLE] * 4, config=LEAST_REQUEST)
    held = Held(made)
    counts = collections.Counter(held.send(str(number), path) for number in range(8))
    held.release()
    assert set(counts.values()) == {2}, counts


def test_scrapes_change_no_counts(stack):
    made = stack(2, metrics=[IDLE] * 2, config=LEAST_REQUEST, env={"METRICS_SCRAPE_INTERVAL": "100ms"})
    held = Held(made)
    first = collections.Counter(held.send(str(number)) for number in range(6))
    for engine in made.engines:
        engine.wait_scrapes(4)
    later = collections.Counter(held.send(str(number)) for number in range(6))
    held.release()
    assert first == later == {"a-1": 3, "a-2": 3}


def test_simultaneous_requests_see_each_other(stack):
    made = stack(2, metrics=[IDLE] * 2, config=LEAST_REQUEST, flags=["--workers=2"])
    gate, conns = threading.Event(), [made.router.connect() for _ in range(64)]
    for engine in made.engines:
        engine.on_request = lambda _: [{"wait_for": gate}, *answer("ok")]
    barrier = threading.Barrier(len(conns))

    def send(conn):
        barrier.wait()
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))

    threads = [threading.Thread(target=send, args=(conn,)) for conn in conns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: len(made.asked()) == 64, 10)
    gate.set()
    for conn in conns:
        assert conn.read_response().status == 200
        conn.close()
    assert all(abs(count - 32) <= 1 for count in collections.Counter(made.asked()).values())
