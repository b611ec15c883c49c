"""Decision 3.3: which engine answers are relayed, which are retried, and on what."""

import hashlib
import threading
import time

import pytest
from support import world
from support.engine import SSE_HEAD, Engine, answer, chat, chunk, content_event, stream
from support.router import SLOW
from support.wire import request_bytes

GOOD = answer("good")


def order(made, *scripts):
    """Each pod in turn (lowest KV use first) answers with its script."""
    for engine, script in zip(made.engines, scripts):
        engine.answers = [script]


@pytest.mark.parametrize("status", ["300 Multiple Choices", "302 Found", "307 Temporary Redirect", "400 Bad Request",
                                    "401 Unauthorized", "403 Forbidden", "405 Method Not Allowed",
                                    "408 Request Timeout", "409 Conflict", "413 Too Large", "415 X",
                                    "422 Unprocessable Entity", "418 Teapot"])
def test_other_3xx_and_4xx_are_relayed_at_once(stack, status):
    made = stack(2)
    order(made, answer("no", status, "text/plain", [("X-Engine", "e"), ("Location", "http://x/")]), GOOD)
    response = made.router.chat()
    assert (response.status, response.text) == (int(status[:3]), "no")
    assert response.headers.get("X-Engine") == "e"
    assert response.headers.get("Location") == "http://x/"
    assert response.headers.get("Content-Type") == "text/plain"
    assert made.asked() == ["a-1"]


FAILURES = {
    "404": answer("no", "404 Not Found"),
    "429": answer("no", "429 Too Many Requests", headers=[("Retry-After", "7")]),
    "500": answer("no", "500 X"),
    "502": answer("no", "502 X"),
    "503": answer("no", "503 X"),
    "599": answer("no", "599 X"),
    "fin": [{"close": True}],
    "rst": [{"reset": True}],
    "half a head": [{"send": "HTTP/1.1 200 OK\r\nContent-Ty"}, {"close": True}],
    "head, then fin": [{"send": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"}, {"close": True}],
    "head, then rst": [{"send": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"}, {"wait_ms": 30}, {"reset": True}],
    "stream head, then fin": [{"send": SSE_HEAD}, {"close": True}],
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("streaming", [False, True])
def test_failures_are_retried_on_the_next_pod(stack, name, streaming):
    made = stack(3)
    good = stream([content_event("x")]) if streaming else GOOD
    order(made, FAILURES[name], FAILURES[name], good)
    response = made.router.chat(stream=streaming)
    assert response.status == 200, response
    assert made.asked() == ["a-1", "a-2", "a-3"]
    line = made.router.wait_log()[0]
    assert (line["selected_pod"], line["upstream_attempts"], line["status_code"]) == ("a-3", 3, 200)
    assert "error" not in line


def test_refused_connections_are_retried(stack):
    made = stack(2)
    made.engines[0].stop()
    assert made.router.chat().status == 200
    assert made.asked() == ["a-2"]


def test_the_body_is_replayed_whole(stack):
    made = stack(3)
    order(made, answer("no", "503 X"), [{"reset": True}], GOOD)
    content = "".join(chr(33 + n % 90) for n in range(300_000))
    response = made.router.chat(content=content)
    assert response.status == 200
    sums = {hashlib.sha256(e.requests[0].body).hexdigest() for e in made.engines}
    lengths = {e.requests[0].headers.get("Content-Length") for e in made.engines}
    assert len(sums) == 1 and len(lengths) == 1
    ids = {e.requests[0].headers.get("x-request-id") for e in made.engines}
    assert len(ids) == 1


def test_the_last_complete_answer_is_relayed(stack):
    made = stack(3)
    order(made, answer("first", "500 X"), answer("second", "429 X", headers=[("Retry-After", "7")]), [{"reset": True}])
    response = made.router.chat()
    assert (response.status, response.text, response.headers.get("Retry-After")) == (429, "second", "7")
    line = made.router.wait_log()[0]
    assert line["error"] == {"type": "upstream_response", "message": "pod golden/a-2 returned HTTP 429"} or \
        line["error"]["type"] == "upstream_response"
    assert line["error_origin"] == "upstream"


def test_a_large_failed_answer_is_not_kept(stack):
    made = stack(2)
    order(made, answer("small", "500 X"), answer("x" * 70_000, "500 X"))
    response = made.router.chat()
    assert (response.status, response.text) == (500, "small")


def test_without_any_answer_503(stack):
    made = stack(3, answers=[[{"reset": True}]])
    response = made.router.chat()
    assert response.status == 503 and "request to all pods failed" in response.error["message"]
    assert sorted(made.asked()) == ["a-1", "a-2", "a-3"]


def test_time_out_then_refusal_is_503(stack):
    made = stack(2, timeout="200ms")
    order(made, [{"hang": True}], [{"reset": True}])
    assert made.router.chat().status == 503


def test_header_time_out_is_retried(stack):
    made = stack(2, timeout="300ms")
    order(made, [{"hang": True}], GOOD)
    started = time.monotonic()
    assert made.router.chat().text == "good"
    assert 0.25 < time.monotonic() - started < 3 * SLOW
    made.engines[0].wait_peer_closed()


def test_at_most_five_pods_are_tried(stack):
    made = stack(8, answers=[answer("no", "500 X")])
    assert made.router.chat().status == 500
    assert len(made.asked()) == 5 and len(set(made.asked())) == 5


@pytest.mark.parametrize("attempts, tried", [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_retry_attempts_limit_the_tries(stack, attempts, tried):
    made = stack(3, answers=[answer("no", "500 X")], retry={"attempts": attempts})
    assert made.router.chat().status == 500
    assert len(made.asked()) == tried


def test_retry_interval_is_waited(stack):
    made = stack(3, retry={"attempts": 2, "retryInterval": "300ms"})
    order(made, answer("no", "500 X"), answer("no", "500 X"), GOOD)
    started = time.monotonic()
    assert made.router.chat().text == "good"
    assert 0.6 <= time.monotonic() - started < 3 * SLOW


def test_retry_interval_is_waited_before_a_pod_that_was_passed_over(stack):
    made = stack(2, retry={"attempts": 1, "retryInterval": "400ms"},
                 flags=["--breaker-failures=2", "--breaker-open=1h", "--breaker-open-max=1h"])
    busy, broken = answer("no", "429 X"), answer("no", "503 X")
    a, b = made.engines
    a.answers, b.answers = [busy, busy, broken], [broken, broken, GOOD]
    for _ in range(2):  # opens the second pod's breaker
        made.router.chat()
    assert made.router.chat().text == "good"
    assert b.requests[2].at - a.requests[2].at > 0.35


def test_no_interval_is_waited_when_no_pod_is_left(stack):
    made = stack(1, retry={"attempts": 3, "retryInterval": "30s"})
    made.engine.answers = [answer("no", "503 X")]
    assert made.router.chat().status == 503 and len(made.asked()) == 1


def test_retry_interval_ends_when_the_client_leaves(stack):
    made = stack(2, retry={"attempts": 1, "retryInterval": "30s"})
    order(made, answer("no", "500 X"), GOOD)
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    made.engines[0].wait_requests(1)
    conn.reset()
    assert made.router.wait_log()[0]["status_code"] == 499
    assert made.asked() == ["a-1"]


def test_nothing_is_retried_after_the_first_byte(stack):
    made = stack(2)
    order(made, [{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_ms": 50}, {"reset": True}],
          stream([content_event("b")]))
    response = made.router.chat(stream=True)
    assert content_event("a").encode() in response.body and b'"b"' not in response.body
    assert response.ended == "truncated"
    assert made.asked() == ["a-1"]


def test_after_the_client_left_nothing_is_tried(stack):
    made = stack(3, answers=[[{"wait_ms": 300}, {"reset": True}]])
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    made.engines[0].wait_requests(1)
    conn.reset()
    made.router.wait_log()
    time.sleep(0.3)
    assert made.asked() == ["a-1"]


def test_reused_connection_closed_by_the_engine(stack):
    """The engine closes idle connections as the request arrives: never seen by the client, same pod."""
    made = stack(1)
    made.engine.answers = [chat()]
    state = {"requests": 0}
    lock = threading.Lock()

    def script(seen):
        with lock:
            state["requests"] += 1
            fresh = seen.connection not in state
            state[seen.connection] = True
        return [*answer("ok")] if fresh else [{"reset": True}]

    made.engine.on_request = script
    with made.router.connect() as conn:
        for _ in range(30):
            conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
            assert conn.read_response().status == 200
    assert all(line["upstream_attempts"] == 1 and line["selected_pod"] == "a-1"
               for line in made.router.wait_log(30))


@pytest.mark.parametrize("idle_ms", [50])
def test_engine_with_a_short_idle_time(stack, idle_ms):
    made = stack(1)
    made.engine.on_request = lambda seen: [*answer("ok"), {"wait_ms": idle_ms}, {"close": True}]
    with made.router.connect() as conn:
        for number in range(60):
            conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
            assert conn.read_response().status == 200, number
            time.sleep((idle_ms + (number % 5) - 2) / 1000)


def test_pool_idle_time_is_below_the_engines(stack):
    made = stack(1, flags=["--upstream-idle-timeout=500ms"])
    assert made.router.chat().status == 200
    seen = made.engine.requests[0]
    first = seen.connection
    time.sleep(1.5)
    assert made.router.chat().status == 200
    assert made.engine.requests[1].connection != first


def test_engine_connection_close_is_obeyed(stack):
    made = stack(1)
    made.engine.answers = [answer("ok", headers=[("Connection", "close")])]
    for _ in range(3):
        assert made.router.chat().status == 200
    assert len({s.connection for s in made.engine.requests}) == 3


def test_many_concurrent_requests_to_one_pod(stack):
    gate = threading.Event()
    made = stack(1, answers=[[{"wait_for": gate}, *GOOD]])
    conns = [made.router.connect() for _ in range(300)]
    for conn in conns:
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    made.engine.wait_requests(300, 10 * SLOW)  # no hidden cap
    gate.set()
    for conn in conns:
        assert conn.read_response().status == 200
        conn.close()


def test_dead_pod_and_two_servers(stack):
    """A target whose pod is gone is a failure of that target, not of the route."""
    made = stack(1, resources=lambda s: world.join(
        world.simple(s), world.model_server("ms-b", "b"), world.pod("b-1", s.ip(9), "b"),
        world.route("mr-b", "m-b", "ms-b")))
    assert made.router.chat("m-b").status == 503
    late = Engine(made.slot.ip(9), answers=[GOOD])
    assert made.router.chat("m-b").status == 200
    late.stop()
