"""Any split of a stream's bytes gives the same result, through the real router (tests/unit/openai does every position)."""

import gzip
import zlib

import pytest
from support.engine import DONE_EVENT, USAGE_EVENT, content_event
from support.wire import request_bytes

TEXT = content_event("日本") + ": ping\n\n" + 'data: {"choices":[{"delta":{"content":"print(\'data: [DONE]\')"}}]}\n\n'
BOTH = 'data: {"choices":[{"delta":{"content":"last"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n'
LINES = 'id: 7\nevent: message\ndata: {"choices":[],\ndata: "usage":{"prompt_tokens":3,\ndata: "completion_tokens":2}}\n\n'
NULLS = 'data: {"choices":[{"delta":{"content":"n"}}],"usage":null}\n\n'
LONG = content_event("x" * 200_000)

# name: (what the engine sends, what a client that did not ask for usage gets)
CORPUS = {
    "LF": (TEXT + USAGE_EVENT + DONE_EVENT, TEXT + DONE_EVENT),
    "usage with content": (NULLS + BOTH + USAGE_EVENT + DONE_EVENT, NULLS + BOTH + DONE_EVENT),
    "usage without choices": (TEXT + USAGE_EVENT.replace('"choices":[],', "") + DONE_EVENT, TEXT + DONE_EVENT),
    "several data lines": (TEXT + LINES + DONE_EVENT, TEXT + DONE_EVENT),
    "no final newline": (TEXT + USAGE_EVENT + "data: [DONE]", TEXT + "data: [DONE]"),
    "a very long line": (LONG + USAGE_EVENT + DONE_EVENT, LONG + DONE_EVENT),
}
CORPUS["CRLF"] = tuple(text.replace("\n", "\r\n") for text in CORPUS["LF"])
CORPUS["CR"] = tuple(text.replace("\n", "\r") for text in CORPUS["LF"])
CORPUS["CRLF, several data lines"] = tuple(text.replace("\n", "\r\n") for text in CORPUS["several data lines"])

HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"


def framed(pieces, framing):
    if framing == "chunked":
        steps = [{"send_bytes": b"%x\r\n%s\r\n" % (len(piece), piece)} for piece in pieces]
        return [{"send": HEAD + "Transfer-Encoding: chunked\r\n\r\n"}, *steps, {"send": "0\r\n\r\n"}]
    if framing == "length":
        return [{"send": f"{HEAD}Content-Length: {sum(map(len, pieces))}\r\n\r\n"}, *({"send_bytes": p} for p in pieces)]
    return [{"send": HEAD + "Connection: close\r\n\r\n"}, *({"send_bytes": p} for p in pieces), {"close": True}]


def splits(data):
    """Two pieces at some thirty places, and many small ones."""
    step = max(1, len(data) // 30)
    yield from ([data[:cut], data[cut:]] for cut in range(1, len(data), step))
    small = max(1, len(data) // 400)
    yield [data[at : at + small] for at in range(0, len(data), small)]


@pytest.mark.parametrize("framing", ["chunked", "length", "until close"])
@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("name", CORPUS)
def test_every_stream_arrives_and_is_counted_however_it_is_cut(stack, name, asked, framing):
    made = stack()
    sent, removed = (text.encode() for text in CORPUS[name])
    body = {"model": "m-a", "stream": True, "messages": []}
    if asked:
        body["stream_options"] = {"include_usage": True}
    count = 0
    with made.router.connect() as conn:
        for pieces in splits(sent):
            made.engine.answers = [framed(pieces, framing)]
            conn.send(request_bytes("POST", "/v1/chat/completions", body))
            response = conn.read_response()
            assert response.ended == "complete"
            assert response.body == (sent if asked else removed), [len(piece) for piece in pieces][:5]
            count += 1
    assert all(line["output_tokens"] == 2 for line in made.router.wait_log(count))


def deflated(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("coding, data", [
    ("gzip", gzip.compress(CORPUS["LF"][0].encode())), ("deflate", deflated(CORPUS["LF"][0].encode())),
    ("br", bytes(range(256)) * 3), ("zstd", CORPUS["LF"][0].encode()), ("gzip, br", b"\x00\r\n\r\ndata: x\n\n" * 9),
])
def test_encoded_streams_pass_untouched_however_they_are_cut(stack, coding, data):
    made = stack()
    with made.router.connect() as conn:
        for pieces in splits(data):
            steps = framed(pieces, "chunked")
            steps[0]["send"] = steps[0]["send"].replace("\r\n\r\n", f"\r\nContent-Encoding: {coding}\r\n\r\n")
            made.engine.answers = [steps]
            conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "stream": True, "messages": []}))
            response = conn.read_response()
            assert (response.ended, response.body) == ("complete", data)
            assert response.headers.get("Content-Encoding") == coding
