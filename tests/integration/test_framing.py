"""Strict HTTP/1.1 towards clients (decisions 6): framing, versions, limits, 100-continue, HEAD, pipelining."""

import time

import pytest
from support.engine import answer, chat
from support.router import SLOW
from support.wire import Closed, chunked, request_bytes

BODY = b'{"model":"m-a","prompt":"x"}'
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: r\r\n"


@pytest.fixture(name="made")
def _made(stack):
    return stack()


@pytest.mark.parametrize("data, status", [
    (HEAD + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(BODY), 400),
    (HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + chunked(BODY), 400),
    (HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n" + chunked(BODY), 400),
    (HEAD + b"Transfer-Encoding: chunked\t\r\n\r\n" + chunked(BODY), 400),
    (HEAD + b'Transfer-Encoding: "chunked,"\r\n\r\n' + chunked(BODY), 400),
    (HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunked(BODY), 400),
    (HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(BODY), 400),
    (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 400),
    (HEAD + b"Transfer-Encoding: frobnicate\r\n\r\n", 501),
    (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400),
    (HEAD + b"Content-Length: 28\r\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (HEAD + b"Content-Length: +5\r\n\r\nabcde", 400),
    (HEAD + b"Content-Length: 0x5\r\n\r\nabcde", 400),
    (HEAD + b"Content-Length: 5,5\r\n\r\nabcde", 400),
    (HEAD + b"Content-Length: -1\r\n\r\n", 400),
    (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n", (400, 413)),
    (HEAD + b"Content-Length:\r\n\r\n", 400),
    (b"POST /v1/completions HTTP/1.0\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked(BODY), 400),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nHost: b\r\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX: 1\r\n folded\r\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX : 1\r\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nBad Name: 1\r\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (b"POST /v1/completions HTTP/1.1\nHost: a\nContent-Length: 28\n\n" + BODY, 400),
    (b"POST /v1/completions HTTP/1.1\r\nHost: a\nContent-Length: 28\r\n\r\n" + BODY, 400),
    (b"POST  /v1/completions HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    (b"GARBAGE\r\n\r\n", 400),
    (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
    (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
    (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", 505),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40 + b"\r\n\r\n", 400),
])
def test_ambiguous_requests_are_refused_and_closed(made, data, status):
    with made.router.connect() as conn:
        conn.send(data + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
        response = conn.read_response("GET")
        assert response.status in (status if isinstance(status, tuple) else (status,)), response
        assert conn.wait_end(3) in ("closed", "reset")
        assert b"HTTP/1.1 200" not in conn.buffer  # nothing behind it was read as a request
    assert made.asked() == []


@pytest.mark.parametrize("body", [
    b"1junk\r\nZ\r\n0\r\n\r\n",
    b"1;a\nb\r\nZ\r\n0\r\n\r\n",
    b"0x1\r\nZ\r\n0\r\n\r\n",
    b"10000000000000000\r\nZ",
    b"5\r\nAAAAAXXX\r\n0\r\n\r\n",
    b"zz\r\n{}\r\n0\r\n\r\n",
    b"1c\n" + BODY + b"\n0\n\n",
    b"-1\r\nZ\r\n0\r\n\r\n",
])
def test_broken_chunks_are_refused(made, body):
    with made.router.connect() as conn:
        conn.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + body)
        response = conn.read_response()
        assert response.status in (400, 413), response
        assert conn.wait_end(3) in ("closed", "reset")
    assert made.asked() == []


def test_chunk_extensions_are_ignored_and_trailers_dropped(made):
    data = b'1c;ext="v";q\r\n' + BODY + b"\r\n0\r\nX-Trailer: t\r\n\r\n"
    with made.router.connect() as conn:
        conn.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + data + request_bytes("GET", "/healthz"))
        assert conn.read_response().status == 200
        assert conn.read_response("GET").text == '{"message":"ok"}'
    seen = made.engine.requests[0]
    assert b"X-Trailer" not in seen.head
    assert len(seen.headers.all("Content-Length")) == 1 and "Transfer-Encoding" not in seen.headers


def test_every_split_of_a_chunked_request(made):
    data = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(BODY[:10], BODY[10:])
    for cut in range(1, len(data), 3):
        with made.router.connect() as conn:
            conn.send(data[:cut])
            conn.send(data[cut:])
            assert conn.read_response().status == 200, cut
    assert len(made.asked()) == len(range(1, len(data), 3))


def test_one_byte_at_a_time(made):
    with made.router.connect() as conn:
        for byte in request_bytes("POST", "/v1/completions", BODY):
            conn.send(bytes([byte]))
        assert conn.read_response().status == 200


def test_head_over_the_limit_is_431(made):
    for headers in ([("X-Big", "A" * 70_000)], [(f"X-{n}", "a" * 400) for n in range(200)]):
        response = made.router.request("POST", "/v1/completions", BODY, headers)
        assert response.status == 431, response
        assert made.asked() == []


def test_head_below_the_limit_passes(made):
    response = made.router.post("/v1/completions", BODY, [("X-Big", "A" * 60_000)])
    assert response.status == 200
    assert made.engine.requests[0].headers.get("X-Big") == "A" * 60_000


def test_target_of_several_kilobytes_passes(made):
    assert made.router.post("/v1/completions?q=" + "x" * 8000, BODY).status == 200


def test_body_over_the_limit_is_413_before_it_is_read(stack):
    made = stack(flags=["--max-body-bytes=1000"])
    with made.router.connect() as conn:
        conn.send(HEAD + b"Content-Length: 1001\r\n\r\n")
        response = conn.read_response()
        assert response.status == 413 and response.error["type"] == "invalid_request_error"
        assert response.headers.get("Connection") == "close"
        assert conn.wait_end(3) in ("closed", "reset")
    with made.router.connect() as conn:
        conn.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001)
        assert conn.read_response().status == 413
    assert made.asked() == []


def test_body_of_exactly_the_limit_passes(stack):
    made = stack(flags=["--max-body-bytes=1000"])
    body = b'{"model":"m-a","prompt":"%s"}'
    body = body % (b"x" * (1000 - len(body) + 2))
    assert len(body) == 1000
    assert made.router.post("/v1/completions", body).status == 200
    with made.router.connect() as conn:
        conn.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(body[:400], body[400:]))
        assert conn.read_response().status == 200


def test_image_of_eight_megabytes_passes(made):
    body = b'{"model":"m-a","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"%s"}}]}]}'
    body = body % (b"A" * (8 << 20))
    assert made.router.post("/v1/chat/completions", body).status == 200
    assert made.engine.requests[0].body == body.replace(b'"m-a"', b'"real-a"')


def test_early_error_never_reads_the_body_as_a_request(made):
    inner = b"GET /healthz HTTP/1.1\r\nHost: r\r\n\r\n"
    with made.router.connect() as conn:
        conn.send(b"POST /nowhere HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner)
        conn.send(request_bytes("GET", "/readyz"))
        assert conn.read_response().status == 404
        second = conn.read_response("GET")
        assert second.status is None or second.text == '{"message":"router is ready"}', second


@pytest.mark.alone
def test_expect_100_continue(made):
    with made.router.connect() as conn:
        conn.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 28\r\n\r\n")
        started = time.monotonic()
        line, _ = conn.read_head(2)
        assert line == "HTTP/1.1 100 Continue" and time.monotonic() - started < 0.5 * SLOW
        conn.send(BODY)
        assert conn.read_response().status == 200
    assert "Expect" not in made.engine.requests[0].headers


def test_expect_with_the_body_at_once(made):
    with made.router.connect() as conn:
        conn.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 28\r\n\r\n" + BODY)
        response = conn.read_response()
        assert response.status == 200 and len(response.interim) <= 1


def test_expect_over_the_limit_gets_no_100(stack):
    made = stack(flags=["--max-body-bytes=10"])
    with made.router.connect() as conn:
        conn.send(HEAD + b"Expect: 100-continue\r\nContent-Length: 28\r\n\r\n")
        response = conn.read_response()
        assert response.status == 413 and response.interim == []


def test_other_expectations_are_ignored_and_not_forwarded(made):
    with made.router.connect() as conn:
        conn.send(HEAD + b"Expect: 200-maybe\r\nContent-Length: 28\r\n\r\n" + BODY)
        response = conn.read_response()
        assert response.status == 200 and response.interim == []
    assert "Expect" not in made.engine.requests[0].headers


@pytest.mark.parametrize("early", ["404", "413", "415"])
def test_early_answers_close_or_drain(stack, early):
    """Answered before its body was read, the connection ends; after it (415), it goes on. Never is it a request."""
    made = stack(flags=["--max-body-bytes=3000000"])
    path = "/nowhere" if early == "404" else "/v1/completions"
    extra = b"Content-Encoding: zstd\r\n" if early == "415" else b""
    size = 5_000_000 if early == "413" else 2_000_000
    inner = (b"GET /healthz HTTP/1.1\r\nHost: r\r\n\r\n" * (size // 36))[:size].ljust(size)
    with made.router.connect() as conn:
        conn.send(b"POST " + path.encode() + b" HTTP/1.1\r\nHost: r\r\n" + extra +
                  b"Content-Length: %d\r\n\r\n" % size + inner[:1000])
        time.sleep(0.1)
        try:
            conn.send(inner[1000:])
        except OSError:
            pass  # more than the router reads behind an answer
        response = conn.read_response()
        assert response.status == int(early), response
        assert conn.wait_end(1.5) in (("open",) if early == "415" else ("closed", "reset"))
        assert not conn.buffer
    assert made.asked() == []


def test_head_answers_have_no_body(made):
    made.engine.answers = [[{"send": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 55\r\n\r\n"}]]
    with made.router.connect() as conn:
        conn.send(request_bytes("HEAD", "/v1/completions", BODY))
        first = conn.read_response("HEAD")
        assert (first.status, first.headers.get("Content-Length")) == (200, "55")
        conn.send(request_bytes("HEAD", "/healthz"))
        assert conn.read_response("HEAD").status == 200
        conn.send(request_bytes("HEAD", "/v1/models"))
        assert conn.read_response("HEAD").status == 200
        conn.send(request_bytes("HEAD", "/nowhere"))
        assert conn.read_response("HEAD").status == 404
        conn.send(request_bytes("GET", "/healthz"))
        assert conn.read_response("GET").text == '{"message":"ok"}'


def test_http10_closes_unless_keep_alive_is_asked(made):
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/completions", BODY, version="HTTP/1.0"))
        assert conn.read_response().status == 200
        assert conn.wait_end(3) == "closed"
    with made.router.connect() as conn:
        for _ in range(2):
            conn.send(request_bytes("POST", "/v1/completions", BODY, [("Connection", "keep-alive")],
                                    version="HTTP/1.0"))
            response = conn.read_response()
            assert response.status == 200 and response.headers.get("Connection", "").lower() == "keep-alive"


def test_http10_never_gets_chunks(made):
    made.engine.answers = [[{"send": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                     "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"}]]
    response = made.router.post("/v1/completions", BODY, version="HTTP/1.0")
    assert (response.framing, response.body, response.ended) == ("close", b"hello", "complete")


def test_http10_without_host_is_served(made):
    assert made.router.send_raw(b"GET /healthz HTTP/1.0\r\n\r\n", "GET").status == 200


def test_pipelined_requests_are_answered_in_order(made):
    made.engine.on_request = lambda seen: [{"wait_ms": 30 if b'"0"' in seen.body else 0}, *answer(seen.body)]
    with made.router.connect() as conn:
        conn.send(b"".join(request_bytes("POST", "/v1/completions", b'{"model":"m-a","prompt":"%d"}' % n)
                           for n in range(20)))
        for number in range(20):
            assert conn.read_response().json()["prompt"] == str(number)


def test_keep_alive_many(made):
    with made.router.connect() as conn:
        for _ in range(50):
            conn.send(request_bytes("POST", "/v1/completions", BODY))
            assert conn.read_response().status == 200
    assert made.engine.connections <= 4  # one for the requests, the rest for scrapes


def test_connection_close_is_obeyed(made):
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/completions", BODY, [("Connection", "close")]))
        response = conn.read_response()
        assert response.headers.get("Connection") == "close" and conn.wait_end(3) == "closed"


def test_slow_head_is_cut(stack):
    made = stack(flags=["--client-head-timeout=500ms"])
    with made.router.connect() as conn:
        conn.send(b"POST /v1/completions HTTP/1.1\r\nX: ")
        started = time.monotonic()
        state = "open"
        while time.monotonic() - started < 5 and state == "open":
            try:
                conn.send(b"y")
            except OSError:
                break
            state = conn.wait_end(0.1)
        assert 0.3 < time.monotonic() - started < 4
    assert made.router.get("/healthz").status == 200


def test_slow_body_is_cut(stack):
    made = stack(flags=["--client-body-timeout=500ms"])
    with made.router.connect() as conn:
        conn.send(HEAD + b"Content-Length: 1000000\r\n\r\n{")
        response = conn.read_response(timeout=5)
        assert (response.status, response.headers.get("Connection")) == (408, "close")


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_a_body_that_trickles_is_cut(stack, framing):
    """A byte now and then is no progress."""
    made = stack(flags=["--client-body-timeout=1s"])
    head = b"Content-Length: 1000000" if framing == "length" else b"Transfer-Encoding: chunked"
    piece = b"x" if framing == "length" else b"1\r\nx\r\n"
    with made.router.connect() as conn:
        conn.send(HEAD + head + b"\r\n\r\n")
        started = time.monotonic()
        while conn.wait_end(0.1) == "open" and not conn.buffer and time.monotonic() - started < 6:
            conn.send(piece)
        response = conn.read_response()
        assert (response.status, response.headers.get("Connection")) == (408, "close")
        assert 0.9 < time.monotonic() - started < 3 * SLOW
    assert made.asked() == []


def test_slow_but_steady_body_passes(stack):
    made = stack(flags=["--client-body-timeout=800ms"])
    body = b'{"model":"m-a","prompt":"' + b"x" * 3000 + b'"}'
    with made.router.connect() as conn:
        conn.send(HEAD + b"Content-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 300):
            conn.send(body[at : at + 300])
            time.sleep(0.2)
        assert conn.read_response().status == 200


def test_idle_keep_alive_is_closed(stack):
    made = stack(flags=["--client-idle-timeout=400ms"])
    with made.router.connect() as conn:
        conn.send(request_bytes("GET", "/healthz"))
        assert conn.read_response("GET").status == 200
        assert conn.wait_end(4) == "closed"


def test_any_method_is_proxied(made):
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
        assert made.router.request(method, "/v1/completions", BODY).status == 200
    assert [s.method for s in made.engine.requests] == ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"]


def test_target_and_query_are_forwarded_as_written(made):
    for target in ("/v1/chat%2Fcompletions?a=%20b&c", "/v1//chat/completions", "/v1/x/../chat/completions?"):
        assert made.router.post(target, BODY).status == 200
        assert made.engine.requests[-1].target == target


def test_absolute_form_becomes_origin_form(made):
    assert made.router.post("http://router.test/v1/completions?x=1", BODY).status == 200
    assert made.engine.requests[-1].target == "/v1/completions?x=1"


def test_interim_answers_of_the_engine_are_skipped(made):
    made.engine.answers = [[{"send": "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"},
                            *chat()]]
    response = made.router.chat()
    assert response.status == 200 and response.interim == []


@pytest.mark.parametrize("script", [
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
    "HTTP/9.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "garbage\r\n\r\n",
    "HTTP/1.1 024 No\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nX: 1\r\n folded\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX: " + "a" * 200_000 + "\r\nContent-Length: 0\r\n\r\n",
])
def test_ambiguous_answers_are_failures_of_the_pod(stack, script):
    made = stack(2, config=None)
    made.engines[0].answers = [[{"send": script}]]
    made.engines[1].answers = [answer("good")]
    for _ in range(4):
        assert made.router.chat().text == "good"


def test_unknown_bytes_after_an_answer_end_the_engine_connection(made):
    made.engine.answers = [[*answer("one"), {"send": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"}],
                           answer("two")]
    assert made.router.chat().text == "one"
    assert made.router.chat().text == "two"


def test_clients_that_vanish_in_the_head_do_no_harm(made):
    for data in (b"", b"POST /v1", HEAD, HEAD + b"Content-Length: 28\r\n\r\n{"):
        with made.router.connect() as conn:
            conn.send(data)
            conn.reset()
    assert made.router.chat().status == 200
    try:
        made.router.wait_metric("kthena_router_active_requests", 0)
    except Closed:
        pass
