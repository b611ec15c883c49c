"""A client that leaves cancels its engine's request (decision 3.16), whatever it has sent behind that request."""

import time

import pytest
from support.engine import SSE_HEAD, answer, chunk, content_event
from support.router import SLOW
from support.wire import request_bytes

STREAM = {"model": "m-a", "stream": True, "messages": [{"role": "user", "content": "x"}]}
EXTRA = {
    "an empty line": b"\r\n",
    "one byte": b"P",
    "a whole request": request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "second"}),
    "half a request": request_bytes("POST", "/v1/completions", b"x" * 10, [("Content-Length", "999")]),
    "more than a buffer": b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 300000\r\n\r\n" + b"y" * 100_000,
}


def leave(conn, how):
    if how == "fin":
        conn.half_close()
    elif how == "close":
        conn.close()
    else:
        conn.reset()


@pytest.mark.parametrize("extra", EXTRA)
@pytest.mark.parametrize("how", ["fin", "close", "reset"])
@pytest.mark.parametrize("when", ["with the request", "later"])
@pytest.mark.parametrize("streaming", [True, False])
def test_extra_bytes_do_not_hide_the_end(stack, extra, how, when, streaming):
    made = stack()
    start = [{"send": SSE_HEAD}, chunk(content_event("a"))] if streaming else []
    made.engine.answers = [start + [{"hang": True}]]
    with made.router.connect() as conn:
        data = request_bytes("POST", "/v1/chat/completions", {**STREAM, "stream": streaming})
        conn.send(data + EXTRA[extra] if when == "with the request" else data)
        made.engine.wait_requests(1)
        if when == "later":
            time.sleep(0.05)
            conn.send(EXTRA[extra])
        if start:
            conn.read_head()
        time.sleep(0.05)
        left = time.monotonic()
        leave(conn, how)
        assert made.engine.wait_peer_closed(timeout=5) - left < 1.0 * SLOW
    made.router.wait_metric("kthena_router_active_upstream_requests", 0)
    assert len(made.engine.requests) == 1  # what stood behind it was not begun
    assert made.router.wait_log()[0]["error"]["type"] == "client_disconnected"


@pytest.mark.parametrize("how", ["close", "reset"])
def test_the_second_of_two_pipelined_requests_is_watched_too(stack, how):
    made = stack()
    made.engine.answers = [answer("first"), [{"hang": True}]]
    one = request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"})
    with made.router.connect() as conn:
        conn.send(one + one + b"\r\n")
        assert conn.read_response().text == "first"
        made.engine.wait_requests(2)
        left = time.monotonic()
        leave(conn, how)
        assert made.engine.wait_peer_closed(1) - left < 1.0 * SLOW


def test_pipelined_requests_of_a_client_that_stays_are_answered_in_order(stack):
    made = stack(2)
    for engine in made.engines:
        engine.on_request = lambda seen: [{"wait_ms": 350}, *answer(seen.body)]
    bodies = [b'{"model":"m-a","prompt":"%s"}' % (bytes([97 + n]) * size) for n, size in
              enumerate((1, 20, 70_000, 3, 200_000))]
    with made.router.connect() as conn:
        conn.send(b"\r\n".join(request_bytes("POST", "/v1/completions", body) for body in bodies))
        for body in bodies:
            assert conn.read_response().body == body.replace(b'"m-a"', b'"real-a"')


@pytest.mark.parametrize("extra", EXTRA)
def test_half_close_behind_extra_bytes_is_answered_when_asked_for(stack, extra):
    made = stack(flags=["--client-half-close=answer"])
    made.engine.answers = [[{"wait_ms": 700}, *answer("late")]]
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}) + EXTRA[extra])
        conn.half_close()
        assert conn.read_response().text == "late"


def test_pipelined_requests_before_a_half_close_are_all_answered_when_asked_for(stack):
    made = stack(flags=["--client-half-close=answer"])
    made.engine.on_request = lambda seen: [{"wait_ms": 200}, *answer(seen.body[-3:])]
    with made.router.connect() as conn:
        conn.send(b"".join(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": str(n)}) for n in range(4)))
        conn.half_close()
        assert [conn.read_response().text for _ in range(4)] == ['0"}', '1"}', '2"}', '3"}']
        assert conn.wait_end() == "closed"


def test_reset_after_a_half_close_is_seen(stack):
    made = stack(flags=["--client-half-close=answer"])
    made.engine.answers = [[{"hang": True}]]
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
    conn.half_close()
    made.engine.wait_requests(1)
    time.sleep(0.4)
    left = time.monotonic()
    conn.reset()
    assert made.engine.wait_peer_closed() - left < 1.0 * SLOW


def test_a_client_that_leaves_between_the_attempts(stack):
    made = stack(2, retry={"attempts": 3, "retryInterval": "20s"})
    made.engines[0].answers = made.engines[1].answers = [answer("no", "503 X")]
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}) + b"\r\n")
        made.router.wait_metric("kthena_router_active_requests", 1)
        time.sleep(0.3)
        conn.half_close()
        made.router.wait_metric("kthena_router_active_requests", 0, timeout=1.5)
    assert len(made.asked()) == 1
