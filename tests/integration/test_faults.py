"""The issue's last check: an engine is killed under load, and nobody who had not yet seen a byte notices."""

import gzip
import json
import os
import random
import signal
import subprocess
import threading

import pytest
from support import world
from support.router import MOCK_ENGINE, SLOW, wait_for
from support.wire import Conn, exchange, request_bytes

STREAMS, CONNECTIONS, SHORT = 200, 64, 2000


@pytest.fixture(name="mocks")
def _mocks(stack):
    if not os.path.exists(MOCK_ENGINE):
        pytest.fail(f"mock engine {MOCK_ENGINE} is missing")
    made = stack(0, start=False)
    processes = []
    for number in range(1, 5):
        processes.append(subprocess.Popen(
            [MOCK_ENGINE, f"--bind={made.slot.ip(number)}", "--port=8000", "--model=real-a", f"--name=a-{number}",
             "--decode-tokens-per-second=40", "--max-batch=100000"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    for number in range(1, 5):
        def alive(ip=made.slot.ip(number)):
            try:
                return exchange((ip, 8000), request_bytes("GET", "/health"), "GET").status == 200
            except OSError:
                return False
        wait_for(alive, 10, "mock engine")
    pods = [world.pod(f"a-{n}", made.slot.ip(n), "a") for n in range(1, 5)]
    made.router.write_resource("world.yaml", world.join(world.model_server("ms-a", "a", model="real-a"), *pods,
                                                        world.route("mr-a", "m-a", "ms-a"),
                                                        world.model_server("ms-plain", "a"),
                                                        world.route("mr-plain", "real-a", "ms-plain")))
    made.router.start()
    yield made, processes
    for process in processes:
        process.kill()
        process.wait()


def test_killing_one_of_four_engines_under_load(mocks):
    made, engines = mocks
    problems, cut, lock = [], [0], threading.Lock()
    short_left = [SHORT]
    killed = threading.Event()

    def streamer(number):
        body = {"model": "m-a", "stream": True, "max_tokens": 100,
                "messages": [{"role": "user", "content": f"stream {number} {random.random()}"}]}
        with Conn(made.router.address, timeout=60 * SLOW) as conn:
            conn.send(request_bytes("POST", "/v1/chat/completions", body))
            response = conn.read_response()
        with lock:
            if response.status is None or (response.status != 200 and not response.body):
                problems.append(("stream", response))
            elif response.status != 200:
                problems.append(("stream", response))
            elif response.ended != "complete":
                cut[0] += 1
                if not response.body:
                    problems.append(("empty stream", response))
                if b"data: [DONE]" in response.body:
                    problems.append(("cut but done", response))

    def sender(number):
        with Conn(made.router.address, timeout=60 * SLOW) as conn:
            while True:
                with lock:
                    if short_left[0] == 0:
                        return
                    short_left[0] -= 1
                    at = short_left[0]
                conn.send(request_bytes("POST", "/v1/chat/completions", {
                    "model": "m-a", "max_tokens": 1, "messages": [{"role": "user", "content": f"{number} {at}"}]}))
                response = conn.read_response()
                if response.status != 200 or response.ended != "complete":
                    if not response.status == 200:  # had no byte, or a wrong answer
                        with lock:
                            problems.append(("short", response))
                    return

    threads = [threading.Thread(target=streamer, args=(n,)) for n in range(STREAMS)]
    for thread in threads:
        thread.start()
    wait_for(lambda: made.router.metric("kthena_router_active_upstream_requests") >= STREAMS * 0.9, 20, "streams run")
    senders = [threading.Thread(target=sender, args=(n,)) for n in range(CONNECTIONS)]
    for thread in senders:
        thread.start()
    wait_for(lambda: short_left[0] < SHORT * 0.8, 20, "requests run", 0.002)
    os.kill(engines[1].pid, signal.SIGKILL)
    killed.set()
    for thread in threads + senders:
        thread.join()
    assert not problems, problems[:5]
    assert short_left[0] == 0
    assert 0 < cut[0] < STREAMS * 0.6  # the dead engine's streams, and only they
    made.router.wait_metric("kthena_router_active_requests", 0)
    made.router.wait_metric("kthena_router_active_upstream_requests", 0)


def test_engine_that_restarts_in_place_is_used_again(mocks):
    made, engines = mocks
    engines[0].kill()
    engines[0].wait()
    for number in range(20):
        assert made.router.chat(content=str(number), max_tokens=1).status == 200
    engines[0] = subprocess.Popen([MOCK_ENGINE, f"--bind={made.slot.ip(1)}", "--port=8000", "--model=real-a", "--name=again"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def used():
        answer = made.router.chat(content=str(random.random()), max_tokens=1)
        return answer.headers.get("x-mock-engine") == "again"

    wait_for(used, 10, "the restarted engine to answer", 0.02)


@pytest.mark.parametrize("model, streaming, forwarded", [("real-a", False, "gzip"), ("real-a", True, None),
                                                         ("m-a", False, None)])
def test_a_gzip_body_is_understood_as_received_and_spliced(mocks, model, streaming, forwarded):
    made, _ = mocks
    body = {"model": model, "stream": streaming, "max_tokens": 3, "prompt": "x" * 400}
    packed = gzip.compress(json.dumps(body).encode())
    response = made.router.post("/v1/completions", packed, [("Content-Encoding", "gzip")])
    assert response.status == 200, response.text
    assert ("text/event-stream" in response.headers.get("Content-Type")) == streaming
    engine = int(response.headers.get("x-mock-engine")[-1])
    seen = json.loads(made.router.get("/control", (made.slot.ip(engine), 8000)).text)["last_request"]
    assert dict(seen["headers"]).get("Content-Encoding") == forwarded
    assert made.router.wait_log()[0]["input_tokens"] == 100  # the router read it decoded
