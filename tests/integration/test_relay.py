"""Decisions 3.5 and 3.7 (bytes as they come, cuts that show, time-outs apart) and 3.16 (a client that left)."""

import gzip
import threading
import time

import pytest
from support.engine import (DONE_EVENT, LAST_CHUNK, SSE_HEAD, USAGE_EVENT, answer, chunk, content_event, stream)
from support.router import SLOW, wait_for
from support.wire import Conn, request_bytes

STREAM = {"model": "m-a", "stream": True, "messages": [{"role": "user", "content": "x"}]}


@pytest.fixture(name="made")
def _made(stack):
    return stack()


def open_stream(made, body=None, headers=()):
    conn = made.router.connect()
    conn.send(request_bytes("POST", "/v1/chat/completions", body or STREAM, headers))
    return conn


def test_events_arrive_one_by_one(made):
    events = [content_event(str(n)) for n in range(6)]
    gates = [threading.Event() for _ in events]
    script = [{"send": SSE_HEAD}]
    for event, gate in zip(events, gates):
        script += [chunk(event), {"wait_for": gate}]
    made.engine.answers = [script + [LAST_CHUNK]]
    with open_stream(made) as conn:
        conn.read_head()
        for event, gate in zip(events, gates):
            assert conn.read_event(3) == event.encode()  # before the engine says more
            gate.set()
        assert conn.read_event(3) == b""


def test_several_events_of_one_write_arrive_together(made):
    made.engine.answers = [[{"send": SSE_HEAD}, chunk("".join(content_event(str(n)) for n in range(50))), LAST_CHUNK]]
    response = made.router.chat(stream=True)
    assert response.body.count(b"data:") == 50


def test_head_comes_with_the_first_body_byte(made):
    gate = threading.Event()
    made.engine.answers = [[{"send": SSE_HEAD}, {"wait_for": gate}, chunk(content_event("a")), LAST_CHUNK]]
    with open_stream(made) as conn:
        assert conn.wait_end(0.3) == "open" and not conn.buffer
        gate.set()
        assert conn.read_response().status == 200


def test_empty_bodies_have_a_head(made):
    for script in (answer(""), [{"send": "HTTP/1.1 204 No Content\r\n\r\n"}], [{"send": SSE_HEAD}, LAST_CHUNK]):
        made.engine.answers = [script]
        response = made.router.chat()
        assert response.status in (200, 204) and response.ended == "complete" and response.body == b""


@pytest.mark.parametrize("kind", ["text/event-stream", "Text/Event-Stream; charset=utf-8"])
def test_content_type_decides_streaming(made, kind):
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
    made.engine.answers = [[{"send": head}, chunk(content_event("a")), chunk(USAGE_EVENT), LAST_CHUNK]]
    response = made.router.chat(stream=True)
    assert response.headers.get("Content-Type") == kind
    assert response.body == content_event("a").encode()


def test_json_answer_to_a_stream_request_stays_json(made):
    made.engine.answers = [answer('{"a":1}')]
    response = made.router.chat(stream=True)
    assert (response.headers.get("Content-Type"), response.text) == ("application/json", '{"a":1}')


CUTS = {"fin": {"close": True}, "rst": {"reset": True}}


@pytest.mark.parametrize("cut", CUTS)
def test_stream_cut_at_an_event_boundary(made, cut):
    made.engine.answers = [[{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_ms": 100}, CUTS[cut]]]
    response = made.router.chat(stream=True)
    assert response.status == 200 and response.ended == "truncated"
    events = response.text.split("\n\n")
    assert events[0] + "\n\n" == content_event("a") and events[-1] == ""
    assert len(events) == 3 and events[1].startswith('data: {"error":{"message":')
    assert b"[DONE]" not in response.body
    line = made.router.wait_log()[0]
    assert (line["status_code"], line["error"]) == (
        200, {"type": "upstream_cut", "message": "upstream closed the connection"})
    made.router.wait_metric("kthena_router_requests_total", 1, error_type="upstream_cut", status_code="200")


@pytest.mark.parametrize("cut", CUTS)
def test_stream_cut_inside_an_event_is_only_closed(made, cut):
    made.engine.answers = [[{"send": SSE_HEAD}, chunk(content_event("a")), chunk('data: {"cho'), {"wait_ms": 100},
                            CUTS[cut]]]
    response = made.router.chat(stream=True, stream_options={"include_usage": True})
    assert response.ended == "truncated"
    assert response.text == content_event("a") + 'data: {"cho'
    held = made.router.chat(stream=True)  # the event was held back: the client stands at a boundary
    assert held.ended == "truncated" and held.text.startswith(content_event("a") + 'data: {"error":')


def test_anthropic_stream_cut_gets_anthropics_error(made):
    made.engine.answers = [[{"send": SSE_HEAD}, chunk('event: ping\ndata: {"type":"ping"}\n\n'), {"wait_ms": 50},
                            {"close": True}]]
    response = made.router.chat(path="/v1/messages", stream=True)
    assert response.ended == "truncated" and '"type":"error"' in response.text


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("head", ["Content-Length: 100", "Transfer-Encoding: chunked"])
def test_cut_plain_answers_never_look_complete(made, cut, head):
    body = '{"id":"c1",' if "Length" in head else 'b\r\n{"id":"c1",\r\n'
    made.engine.answers = [[{"send": f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{head}\r\n\r\n{body}"},
                            {"wait_ms": 100}, CUTS[cut]]]
    response = made.router.chat()
    assert response.status == 200 and response.ended == "truncated" and response.body == b'{"id":"c1",'


def test_close_delimited_answers_end_with_fin_only(made):
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    made.engine.answers = [[{"send": head}, {"send_repeat": "x" * 1000, "count": 1000}, {"close": True}]]
    response = made.router.chat()
    assert (response.ended, len(response.body), response.framing) == ("complete", 1_000_000, "chunked")
    made.engine.answers = [[{"send": head + "abc"}, {"wait_ms": 50}, {"reset": True}]]
    assert made.router.chat().ended == "truncated"


def test_broken_chunks_of_the_engine_are_a_cut(made):
    made.engine.answers = [[{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_ms": 50}, {"send": "zz\r\nabc"},
                            {"hang": True}]]
    response = made.router.chat(stream=True, timeout=5)
    assert response.ended == "truncated"


def test_engine_error_event_is_relayed(made):
    event = 'data: {"error":{"message":"oom","code":500}}\n\n'
    made.engine.answers = [stream([content_event("a"), event])]
    response = made.router.chat(stream=True)
    assert (response.ended, response.text) == ("complete", content_event("a") + event)


def test_packed_streams_pass_untouched(made):
    data = gzip.compress((content_event("a") + USAGE_EVENT + DONE_EVENT).encode())
    head = ("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n"
            "Transfer-Encoding: chunked\r\n\r\n")
    made.engine.answers = [[{"send": head}, *(chunk(data[n : n + 7]) for n in range(0, len(data), 7)), LAST_CHUNK]]
    response = made.router.chat(stream=True, headers=[("Accept-Encoding", "gzip")])
    assert response.ended == "complete" and response.body == data
    assert made.engine.requests[0].headers.get("Accept-Encoding") == "gzip"


def test_large_answers_pass(made):
    made.engine.answers = [[{"send": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                     "Content-Length: 50000000\r\n\r\n"}, {"send_repeat": "x" * 1000, "count": 50000}]]
    response = made.router.chat(timeout=30 * SLOW)
    assert (response.ended, len(response.body)) == ("complete", 50_000_000)


def test_slow_readers_do_not_grow_the_router(made):
    """Ten clients that read nothing while the engine offers 40 MB each."""
    made.engine.answers = [[{"send": SSE_HEAD}, *[chunk(content_event("x" * 60_000))] * 680, LAST_CHUNK]]
    assert made.router.get("/healthz").status == 200
    before = made.router.rss_bytes()
    conns = [open_stream(made) for _ in range(10)]
    made.engine.wait_requests(10)
    steady = [0]

    def settled():
        now = made.router.rss_bytes()
        same, steady[0] = abs(now - steady[0]) < 100_000, now
        return same

    wait_for(settled, 10, "a steady size", 0.4)
    assert made.router.rss_bytes() - before < 40e6 * SLOW, (before, made.router.rss_bytes())
    response = conns[0].read_response(timeout=30 * SLOW)
    assert response.ended == "complete" and len(response.body) > 40_000_000
    for conn in conns:
        conn.close()


def test_stalled_client_is_cut(stack):
    made = stack(flags=["--client-write-timeout=700ms"])
    made.engine.answers = [[{"send": SSE_HEAD}, *[chunk(content_event("x" * 60_000))] * 680, LAST_CHUNK]]
    conn = open_stream(made)
    made.engine.wait_peer_closed(timeout=10)
    conn.close()


# time-outs (3.7)

def test_header_time_out_does_not_cut_a_long_stream(stack):
    made = stack(timeout="300ms")
    made.engine.answers = [stream([content_event(str(n)) for n in range(8)], gap_ms=100)]
    response = made.router.chat(stream=True)
    assert response.ended == "complete" and response.body.count(b"data:") == 8


def test_header_time_out_does_not_cut_silence_inside_an_answer(stack):
    made = stack(timeout="300ms")
    made.engine.answers = [[{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_ms": 700}, chunk(content_event("b")),
                            LAST_CHUNK]]
    assert made.router.chat(stream=True).ended == "complete"


def test_silence_in_a_stream_ends_with_an_error_event(stack):
    made = stack(flags=["--stream-idle-timeout=400ms"])
    made.engine.answers = [[{"send": SSE_HEAD}, chunk(content_event("a")), {"hang": True}]]
    response = made.router.chat(stream=True, timeout=5)
    assert response.ended == "truncated" and '"error"' in response.text
    made.engine.wait_peer_closed()


def test_total_time_out(stack):
    made = stack(flags=["--total-timeout=500ms"])
    made.engine.answers = [[{"hang": True}]]
    started = time.monotonic()
    response = made.router.chat(timeout=5)
    assert response.status == 504 and 0.4 < time.monotonic() - started < 3 * SLOW


def test_the_total_time_out_ends_the_tries(stack):
    made = stack(3, retry={"attempts": 2, "retryInterval": "2s"}, flags=["--total-timeout=500ms"])
    for engine in made.engines:
        engine.answers = [[{"hang": True}]]
    started = time.monotonic()
    assert made.router.chat(timeout=10).status == 504
    assert time.monotonic() - started < 1.5 * SLOW
    assert sum(len(engine.requests) for engine in made.engines) == 1


def test_slow_answer_passes_by_default(made):
    made.engine.answers = [[{"wait_ms": 1500}, *answer("late")]]
    assert made.router.chat().text == "late"


# a client that left (3.16)

@pytest.mark.parametrize("how", ["reset", "close"])
@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("when", ["before the head", "in the body"])
def test_client_that_leaves_cancels_the_engines_request(made, how, streaming, when):
    body = {**STREAM, "stream": streaming}
    start = [] if when == "before the head" else \
        [{"send": SSE_HEAD}, chunk(content_event("a"))] if streaming else \
        [{"send": "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc"}]
    made.engine.answers = [start + [{"hang": True}]]
    conn = open_stream(made, body)
    if start:
        conn.read_head()
    made.engine.wait_requests(1)
    left = time.monotonic()
    getattr(conn, how)()
    closed = made.engine.wait_peer_closed(timeout=5)
    assert closed - left < 1.0 * SLOW
    line = made.router.wait_log()[0]
    assert line["error"] == {"type": "client_disconnected", "message": "client closed the connection"}
    assert line["status_code"] == (200 if start else 499)
    made.router.wait_metric("kthena_router_active_requests", 0)
    made.router.wait_metric("kthena_router_requests_total", 1, error_type="client_disconnected")


def test_half_close_counts_as_leaving(made):
    made.engine.answers = [[{"hang": True}]]
    conn = open_stream(made)
    made.engine.wait_requests(1)
    left = time.monotonic()
    conn.half_close()
    assert made.engine.wait_peer_closed() - left < 1.0 * SLOW
    conn.close()


def test_half_close_is_answered_when_asked_for(stack):
    made = stack(flags=["--client-half-close=answer"])
    made.engine.answers = [[{"wait_ms": 300}, *answer("late")]]
    with open_stream(made) as conn:
        conn.half_close()
        assert conn.read_response().text == "late"


def test_half_close_with_answer_still_sees_a_reset(stack):
    made = stack(flags=["--client-half-close=answer"])
    made.engine.answers = [[{"hang": True}]]
    conn = open_stream(made)
    made.engine.wait_requests(1)
    conn.reset()
    made.engine.wait_peer_closed()


def test_gauges_return_to_zero_after_everything(stack):
    """Decision 3.9: whatever happens to a request, its counts are given back once."""
    made = stack(3, flags=["--stream-idle-timeout=500ms"])
    scripts = [answer("ok"), answer("no", "400 X"), answer("no", "500 X"), [{"reset": True}],
               [{"send": SSE_HEAD}, chunk(content_event("a")), {"reset": True}], [{"wait_ms": 30}, *answer("ok")],
               stream([content_event("a"), DONE_EVENT], gap_ms=10)]
    lock, count = threading.Lock(), [0]

    def script(_):
        with lock:
            count[0] += 1
            return scripts[count[0] % len(scripts)]

    for engine in made.engines:
        engine.on_request = script

    def client(seed):
        for number in range(25):
            try:
                with Conn(made.router.address) as conn:
                    conn.send(request_bytes("POST", "/v1/chat/completions", {**STREAM, "stream": number % 2 == 0}))
                    if (number + seed) % 4 == 0:
                        conn.wait_end(0.005 * (number % 3))
                        conn.reset()
                    else:
                        conn.read_response()
            except OSError:
                pass

    threads = [threading.Thread(target=client, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("active_requests", "active_downstream_requests", "active_upstream_requests"):
        made.router.wait_metric(f"kthena_router_{name}", 0)
    assert made.router.chat().status in (200, 400, 500, 503)
