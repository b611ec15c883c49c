"""Decision 3.11: which headers travel."""

import re

import pytest
from support.engine import answer
from support.wire import request_bytes

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture(name="made")
def _made(stack):
    return stack()


def test_end_to_end_request_headers_pass_and_nothing_is_added(made):
    headers = [("Content-Type", "application/json"), ("Authorization", "Bearer sk-1"), ("Cookie", "a=b"),
               ("X-Dup", "1"), ("X-Dup", "2"), ("X-Empty", ""), ("User-Agent", "t/1"), ("Accept-Encoding", "br"),
               ("X-Forwarded-For", "10.0.0.1"), ("x-session-id", "s"), ("X_Under", "u"), ("Accept", "*/*")]
    assert made.router.post("/v1/embeddings?x=1&y", b'{"model":"m-a","input":"x"}', headers).status == 200
    seen = made.engine.requests[0]
    assert seen.target == "/v1/embeddings?x=1&y"
    got = sorted((n.lower(), v) for n, v in seen.headers if n.lower() not in ("content-length", "x-request-id"))
    assert got == sorted([(n.lower(), v) for n, v in headers] + [("host", "router.test")])
    assert UUID.fullmatch(seen.headers.get("x-request-id"))
    assert len(seen.headers.all("Content-Length")) == 1


def test_hop_by_hop_request_headers_stay(stack):
    made = stack(flags=["--workers=1"])
    headers = [("Connection", "X-Local, close"), ("X-Local", "1"), ("Keep-Alive", "timeout=5"), ("TE", "trailers"),
               ("Proxy-Authorization", "x"), ("Proxy-Connection", "keep-alive"), ("Upgrade", "h2c"),
               ("Trailer", "X-T")]
    assert made.router.post("/v1/completions", b'{"model":"m-a","prompt":"x"}', headers).status == 200
    names = {n.lower() for n, _ in made.engine.requests[0].headers}
    assert names <= {"host", "content-length", "x-request-id", "connection"}
    assert made.engine.requests[0].headers.get("Connection", "keep-alive") == "keep-alive"
    assert made.router.chat().status == 200
    assert made.engine.requests[0].connection == made.engine.requests[1].connection  # the pool survived


def test_connection_cannot_remove_what_the_router_needs(made):
    headers = [("Connection", "host, content-length, x-request-id"), ("x-request-id", "mine")]
    assert made.router.post("/v1/completions", b'{"model":"m-a","prompt":"x"}', headers).status == 200
    seen = made.engine.requests[0]
    assert seen.headers.get("Host") and seen.framing == "content-length" and seen.headers.get("x-request-id")


def test_answer_headers(made):
    made.engine.answers = [answer("ok", headers=[
        ("server", "uvicorn"), ("date", "Mon, 01 Jan 2024 00:00:00 GMT"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"),
        ("Connection", "X-Hop2"), ("X-Hop2", "1"), ("Keep-Alive", "timeout=5"), ("Proxy-Authenticate", "x"),
        ("Trailer", "X-T"), ("Upgrade", "h2c"), ("x_under", "1"), ("X-Accel-Buffering", "no")])]
    with made.router.connect() as conn:
        for _ in range(2):  # the client's connection is not closed
            conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
            response = conn.read_response()
    got = sorted((n.lower(), v) for n, v in response.headers if n.lower() != "x-request-id")
    assert got == sorted([
        ("content-type", "application/json"), ("content-length", "2"), ("server", "uvicorn"),
        ("date", "Mon, 01 Jan 2024 00:00:00 GMT"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("x_under", "1"),
        ("x-accel-buffering", "no")])
    assert len(response.headers.all("x-request-id")) == 1


def test_date_is_added_when_the_engine_sent_none(made):
    date = made.router.chat().headers.all("Date")
    assert len(date) == 1 and re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", date[0])


@pytest.mark.parametrize("given, kept", [
    ("abc-123", True), ("x" * 128, True), ("a!~/", True),
    ("x" * 129, False), ("caf\u00e9", False), ("", False), ("a\tb", False),
])
def test_request_ids(made, given, kept):
    response = made.router.chat(headers=[("X-Request-ID", given)])
    at_engine = made.engine.requests[0].headers.all("x-request-id")
    assert len(at_engine) == 1
    assert response.headers.all("x-request-id") == at_engine
    assert made.router.wait_log()[0]["request_id"] == at_engine[0]
    if kept:
        assert at_engine == [given]
    else:
        assert UUID.fullmatch(at_engine[0])


def test_own_errors_carry_the_request_id(made):
    response = made.router.chat("nope", headers=[("x-request-id", "mine")])
    assert response.headers.get("x-request-id") == "mine"


def test_forwarded_headers_only_when_asked_for(stack):
    plain = stack()
    assert plain.router.chat().status == 200
    assert not [n for n, _ in plain.engine.requests[0].headers if n.lower().startswith("x-forwarded")]
    made = stack(flags=["--forwarded-headers"])
    assert made.router.chat(headers=[("X-Forwarded-For", "10.0.0.1")]).status == 200
    seen = made.engine.requests[0].headers
    assert re.match(r"10\.0\.0\.1, 127\.", ", ".join(seen.all("X-Forwarded-For")))
    assert seen.get("X-Forwarded-Proto") == "http"


def test_every_path_has_the_same_policy(made):
    for path in ("chat/completions", "completions", "embeddings", "responses", "messages", "rerank", "score",
                 "audio/speech", "anything/else"):
        made.router.post(f"/v1/{path}?q=1", b'{"model":"m-a","input":"x"}', [("Authorization", "Bearer T")])
        seen = made.engine.requests[-1]
        assert seen.target == f"/v1/{path}?q=1" and seen.headers.get("Authorization") == "Bearer T"
        assert seen.headers.get("Host") == "router.test"


@pytest.mark.parametrize("head, length", [("204 No Content\r\nContent-Length: 0", None),
                                          ("204 No Content\r\nContent-Length: 5", None),
                                          ("304 Not Modified\r\nContent-Length: 5", "5"),
                                          ("304 Not Modified", None)])
def test_content_length_of_answers_without_a_body(made, head, length):
    """RFC 9110, 8.6: none with 204; with 304 what the body would have."""
    made.engine.answers = [[{"send": f"HTTP/1.1 {head}\r\nETag: \"e\"\r\n\r\n"}]]
    with made.router.connect() as conn:
        for _ in range(2):  # the connection goes on: no body was expected or sent
            conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": "x"}))
            response = conn.read_response()
            assert (response.status, response.headers.get("ETag")) == (int(head[:3]), '"e"')
            assert response.headers.get("Content-Length") == length
            assert "Transfer-Encoding" not in response.headers
    assert made.engine.requests[0].connection == made.engine.requests[1].connection
