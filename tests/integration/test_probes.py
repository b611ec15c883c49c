"""Probes are answered whatever the router is busy with, and cost the same with many pods."""

import threading
import time

import pytest
from support import world
from support.engine import answer
from support.router import SLOW, wait_for
from support.wire import Conn, request_bytes

pytestmark = pytest.mark.alone


def slowest_of_most(made, path, count):
    """Of `count` probes, each on a connection of its own, the time that 95 % stay below."""
    times = []
    for _ in range(count):
        started = time.monotonic()
        assert made.router.get(path).status == 200
        times.append(time.monotonic() - started)
        time.sleep(0.01)
    return sorted(times)[int(count * 0.95)]


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_under_load(stack, path):
    made = stack(2)
    stop = threading.Event()

    def client(number):
        with Conn(made.router.address) as conn:
            body = {"model": "m-a", "prompt": f"{number}" + "x" * 100_000}
            while not stop.is_set():
                conn.send(request_bytes("POST", "/v1/completions", body))
                if conn.read_response().status != 200:
                    return

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert slowest_of_most(made, path, 60) < 0.3 * SLOW  # the clients of this test share its interpreter
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_probes_with_two_thousand_pods(stack):
    """None of them answers a scrape; readiness and liveness do not look at pods."""
    pods = 2000
    made = stack(1, wait_ready=False, resources=lambda s: world.join(
        world.model_server("ms-a", "a"), world.route("mr-a", "m-a", "ms-a"), world.pod("a-1", s.ip(1), "a"),
        world.model_server("ms-b", "b"), world.route("mr-b", "m-b", "ms-b"),
        *(world.pod(f"b-{n}", f"127.{200 + n // 250}.{n % 250}.9", "b") for n in range(pods))))
    made.router.wait_ready(30)
    assert len(made.router.debug("/debug/config_dump/pods").json()["pods"]) == pods + 1
    for path in ("/healthz", "/readyz"):
        assert slowest_of_most(made, path, 40) < 0.1 * SLOW
    assert made.router.chat().status == 200


def test_liveness_needs_no_pods_and_readiness_no_living_ones(stack):
    made = stack(1)
    made.engine.stop()
    assert made.router.chat().status == 503
    assert (made.router.get("/healthz").status, made.router.get("/readyz").status) == (200, 200)


def test_probes_while_bodies_stand_still(stack):
    gate = threading.Event()
    made = stack(1, answers=[[{"wait_for": gate}, *answer("ok")]], flags=["--workers=1"])
    conns = [made.router.connect() for _ in range(100)]
    for number, conn in enumerate(conns):
        request = request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x" * 5000})
        conn.send(request if number % 2 else request[:3000])
    wait_for(lambda: len(made.asked()) == 50, 10)
    assert slowest_of_most(made, "/healthz", 20) < 0.1 * SLOW
    gate.set()
    for conn in conns:
        conn.close()
