"""Engines that fail at each stage of an exchange: what is retried, what the client sees, what is cancelled."""

import socket
import threading
import time

import pytest
from support import world
from support.engine import LAST_CHUNK, SSE_HEAD, answer, chunk, content_event, vllm_metrics
from support.router import SLOW, wait_for
from support.wire import request_bytes


def stop_listening(listener):
    """A close alone leaves the address taken while a thread waits in accept()."""
    try:
        listener.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    listener.close()


def test_a_black_hole_is_left_after_the_connect_time_out(stack, holes):
    made = stack(2, flags=["--connect-timeout=300ms"], listen=False, start=False)
    holes(made.slot.ip(1))
    made.engines[1].start()
    made.engines[1].answers = [answer("good")]
    made.router.start()
    for _ in range(3):
        started = time.monotonic()
        assert made.router.chat().text == "good"
        assert time.monotonic() - started < 2 * SLOW


def test_nothing_but_black_holes_is_a_504(stack, holes):
    made = stack(2, flags=["--connect-timeout=200ms"], listen=False, start=False)
    holes(made.slot.ip(1))
    holes(made.slot.ip(2))
    made.router.start()
    started = time.monotonic()
    response = made.router.chat()
    assert response.status == 504 and "request to all pods failed" in response.error["message"]
    assert 0.35 < time.monotonic() - started < 3 * SLOW


def test_a_client_that_leaves_while_connecting(stack, holes):
    made = stack(1, listen=False, start=False)
    holes(made.slot.ip(1))
    made.router.start()
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
        made.router.wait_metric("kthena_router_active_requests", 1)
    made.router.wait_metric("kthena_router_active_requests", 0, timeout=1.5)


class StuckReader:
    """Accepts and reads a little of a large request; then stalls, or resets the connection."""

    def __init__(self, ip, reset_after=None):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind((ip, 8000))
        self.listener.listen(16)
        self.reset_after, self.large, self.conns = reset_after, 0, []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            data = conn.recv(1000)
            if data.startswith(b"GET"):
                page = vllm_metrics(kv=0.0)  # the least loaded one: it is asked first
                conn.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\nConnection: close\r\n\r\n{page}".encode())
                conn.close()
                continue
            self.large += 1
            if self.reset_after is not None:
                time.sleep(self.reset_after)
                conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                conn.close()
            else:
                self.conns.append(conn)


def big(number=0):
    return b'{"model":"m-a","prompt":"%d' % number + b"x" * 20_000_000 + b'"}'


@pytest.mark.parametrize("reset_after", [None, 0.0, 0.1])
def test_failures_while_the_body_is_sent_are_retried_with_the_whole_body(stack, reset_after):
    made = stack(2, listen=False, start=False, timeout="700ms")
    stuck = StuckReader(made.slot.ip(1), reset_after)
    made.engines[1].start()
    made.engines[1].answers = [answer("good")]
    made.router.start()
    for number in range(4):
        assert made.router.post("/v1/completions", big(number), timeout=20).text == "good"
    stop_listening(stuck.listener)
    assert stuck.large == 4
    assert [seen.body for seen in made.engines[1].requests] == [big(n).replace(b"m-a", b"real-a", 1) for n in range(4)]


class EarlyRefuser:
    """Answers at the head of a request. "closes": with a FIN; "keeps": leaves the connection open and reads no more;
    "goes on": says 103 first, reads everything, then answers."""

    def __init__(self, ip, how):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self.listener.bind((ip, 8000))
        self.listener.listen(16)
        self.how, self.read, self.posts, self.kept = how, 0, 0, []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        data = conn.recv(1000)
        if data.startswith(b"GET"):
            conn.sendall(b"HTTP/1.1 404 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            conn.close()
            return
        self.posts += 1
        self.kept.append(conn)
        time.sleep(0.2)  # the router has filled the socket
        refusal = b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 5\r\n\r\nlarge"
        if self.how == "keeps":
            conn.sendall(refusal)
        elif self.how == "closes":
            conn.sendall(refusal)
            conn.shutdown(socket.SHUT_WR)
            conn.settimeout(0.5)
            try:
                while conn.recv(65536):
                    pass
            except OSError:
                pass
            conn.close()
        else:
            conn.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n")
            total = int(data.split(b"Content-Length: ")[1].split(b"\r\n")[0]) + data.index(b"\r\n\r\n") + 4
            read = len(data)
            while read < total:
                read += len(conn.recv(1 << 20))
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")


@pytest.mark.parametrize("how", ["closes", "keeps", "goes on"])
def test_an_early_answer_is_relayed_though_the_body_was_not_read(stack, how):
    made = stack(1, listen=False, start=False)
    engine = EarlyRefuser(made.slot.ip(1), how)
    made.router.start()
    for count in (1, 2):
        response = made.router.post("/v1/completions", big(), timeout=10 * SLOW)
        assert (response.status, response.text) == ((200, "whole") if how == "goes on" else (413, "large"))
        assert how == "goes on" or engine.posts == count  # a connection with half a request serves no other
    stop_listening(engine.listener)


STALLS = {
    "nothing": [{"hang": True}],
    "half a head": [{"send": "HTTP/1.1 200 OK\r\nContent-Ty"}, {"hang": True}],
    "interim heads only": [{"send": "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" * 3}, {"hang": True}],
}


@pytest.mark.parametrize("stage", STALLS)
def test_stalls_before_the_head_go_to_the_next_pod(stack, stage):
    made = stack(2, timeout="300ms")
    made.engines[0].answers, made.engines[1].answers = [STALLS[stage]], [answer("good")]
    assert made.router.chat().text == "good"
    made.engines[0].wait_peer_closed()


@pytest.mark.parametrize("head", [SSE_HEAD, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"])
def test_a_stall_between_head_and_body_goes_to_the_next_pod(stack, head):
    made = stack(2, flags=["--stream-idle-timeout=300ms"])
    made.engines[0].answers, made.engines[1].answers = [[{"send": head}, {"hang": True}]], [answer("good")]
    assert made.router.chat().text == "good"
    made.engines[0].wait_peer_closed()


@pytest.mark.parametrize("tail", [{"hang": True}, {"close": True}, {"reset": True}])
def test_a_stall_or_cut_in_a_plain_body_never_looks_complete(stack, tail):
    made = stack(2, flags=["--stream-idle-timeout=300ms"])
    made.engines[0].answers = [[{"send": "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"}, {"wait_ms": 50}, tail]]
    response = made.router.chat()
    assert (response.status, response.ended, response.body) == (200, "truncated", b"half")
    assert made.asked() == ["a-1"]


@pytest.mark.parametrize("tail", [{"hang": True}, {"close": True}, {"reset": True}])
@pytest.mark.parametrize("head, body", [(SSE_HEAD, chunk('data: {"half')), (SSE_HEAD.replace("event-stream", "plain"), chunk("half"))])
def test_a_cut_answer_never_looks_complete_to_http10(stack, tail, head, body):
    """There the end of the connection is the end of the body, so it has to be a reset."""
    made = stack(2, flags=["--stream-idle-timeout=300ms"])
    made.engines[0].answers = [[{"send": head}, body, {"wait_ms": 50}, tail]]
    request = request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "messages": []}, version="HTTP/1.0")
    with made.router.connect() as conn:
        conn.send(request)
        status, headers = conn.read_head()
        assert status == "HTTP/1.1 200 OK" and "Transfer-Encoding" not in headers
        assert conn.wait_end(5) == "reset"
    assert made.router.wait_log()[0]["error"]["type"] == "upstream_cut"


def test_a_cut_stream_at_a_boundary_tells_http10_by_its_event(stack):
    made = stack(1)
    made.engine.answers = [[{"send": SSE_HEAD}, chunk(content_event("a")), {"wait_ms": 50}, {"reset": True}]]
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "stream": True, "messages": []},
                                version="HTTP/1.0"))
        response = conn.read_response()
        assert response.text.startswith(content_event("a") + 'data: {"error":')


@pytest.mark.parametrize("method, head", [("HEAD", "200 OK\r\nContent-Length: 5"), ("POST", "204 No Content"),
                                          ("POST", "304 Not Modified\r\nContent-Length: 5")])
def test_a_body_where_none_may_be_poisons_the_connection_only(stack, method, head):
    made = stack(1)
    made.engine.answers = [[{"send": f"HTTP/1.1 {head}\r\n\r\nhello"}], answer("next")]
    with made.router.connect() as conn:
        conn.send(request_bytes(method, "/v1/completions", {"model": "m-a", "prompt": "x"}))
        first = conn.read_response(method)
        assert (first.status, first.ended) == (int(head[:3]), "complete")
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
        assert conn.read_response().text == "next"
    assert made.engine.requests[0].connection != made.engine.requests[1].connection


def test_more_bytes_than_announced_poison_the_connection_only(stack):
    made = stack(1)
    made.engine.answers = [[{"send": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more"}], answer("next")]
    first = made.router.chat()
    assert (first.ended, first.text) == ("complete", "hello")
    assert made.router.chat().text == "next"
    assert made.engine.requests[0].connection != made.engine.requests[1].connection


def test_bytes_after_the_last_chunk_poison_the_connection_only(stack):
    made = stack(1)
    made.engine.answers = [[{"send": SSE_HEAD}, chunk(content_event("a")), {"send": "0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"}],
                           answer("next")]
    first = made.router.chat()
    assert (first.ended, first.text) == ("complete", content_event("a"))
    assert made.router.chat().text == "next"
    assert made.engine.requests[0].connection != made.engine.requests[1].connection


def test_trailers_and_chunk_extensions_of_the_engine_are_dropped(stack):
    made = stack(1)
    made.engine.answers = [[{"send": SSE_HEAD + '5;ext="a;b"\r\nhello\r\n0;last\r\nX-Trailer: t\r\n\r\n'}]]
    with made.router.connect() as conn:
        for _ in range(2):
            conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
            response = conn.read_response()
            assert (response.ended, response.text, response.trailers) == ("complete", "hello", [])


def test_429_is_relayed_with_its_retry_after_when_every_pod_says_so(stack):
    made = stack(2, answers=[answer('{"error":"busy"}', "429 Too Many Requests", headers=[("Retry-After", "7")])])
    response = made.router.chat()
    assert (response.status, response.headers.get("Retry-After"), response.text) == (429, "7", '{"error":"busy"}')
    assert sorted(made.asked()) == ["a-1", "a-2"]


def test_a_busy_pod_is_not_the_last_word(stack):
    made = stack(2)
    made.engines[0].answers = [answer("busy", "429 Too Many Requests", headers=[("Retry-After", "7")])]
    made.engines[1].answers = [answer("good")]
    assert (made.router.chat().text, made.asked()) == ("good", ["a-1", "a-2"])


@pytest.mark.parametrize("at", ["before", "during"])
def test_a_pod_that_dies_with_many_requests_under_way(stack, at):
    """Reset at once: before the head every request ends elsewhere; in mid-stream each client sees a cut."""
    made = stack(2, resources=lambda s: world.simple(s, 2))
    gate = threading.Event()
    start = [] if at == "before" else [{"send": SSE_HEAD}, chunk(content_event("a"))]
    for engine in made.engines:
        engine.answers = [[*start, {"wait_for": gate}, *([] if start else [{"send": SSE_HEAD}]),
                           chunk(content_event("b")), LAST_CHUNK]]
    conns = [made.router.connect() for _ in range(40)]
    for number, conn in enumerate(conns):
        conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "stream": True, "messages": [
            {"role": "user", "content": str(number)}]}))
    wait_for(lambda: len(made.asked()) == 40, 10)
    if start:
        for conn in conns:
            conn.read_head()
            conn.read_event()
    on_first = len(made.engines[0].requests)
    assert on_first > 0
    made.engines[0].stop(reset=True)
    if at == "before":
        made.engines[1].wait_requests(40)
    gate.set()
    if at == "before":
        ends = [conn.read_response().ended for conn in conns]
        assert ends == ["complete"] * 40
    else:
        texts = []
        for conn in conns:
            try:
                events = []
                while (event := conn.read_event()) != b"":
                    events.append(event)
                texts.append("complete" if events == [content_event("b").encode()] else "odd")
            except Exception as ended:  # pylint: disable=broad-except
                texts.append(type(ended).__name__)
        assert texts.count("complete") == 40 - on_first and texts.count("Closed") == on_first, texts
    for conn in conns:
        conn.close()
    made.router.wait_metric("kthena_router_active_upstream_requests", 0)
