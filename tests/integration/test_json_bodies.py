"""JSON that breaks readers: never a crash, never a changed byte towards the engine, a clear 400 with its place."""

import hashlib
import json
import re

import pytest
from support import world
from support.wire import request_bytes

DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.fixture(name="made")
def _made(stack):
    """Without a model of the server's own nothing is spliced in."""
    return stack(resources=lambda s: world.join(world.model_server("ms-a", "a"), world.pod("a-1", s.ip(1), "a"),
                                                world.route("mr-a", "m-a", "ms-a")))


@pytest.mark.parametrize("body", [
    b'{"model":"other","model":"m-a","prompt":"x","prompt":"y","stream":true,"stream":false}',
    b'{"model":"m-a","prompt":"x","seed":9007199254740993,"logit_bias":{"50256":-100},"temperature":1e0,"n":-0.0}',
    b'{"model":"m-a","prompt":"x","big":' + b"9" * 5000 + b',"small":1e-999999,"huge":1e999999}',
    b'{"model":"m-a","prompt":"cut \\ud83d"}',
    b'{"model":"m-a","prompt":"\\udc00\\ud800 \\u0000 \\/"}',
    b'{"model":"m-a","messages":[{"role":"user","content":"cut \\ud83d","name":null}],"user":"\\ud83d"}',
    b'{"model":"m-a","messages":[{"role":"assistant","content":null,"tool_calls":null}],"tools":null,"stream":null,'
    b'"stream_options":null,"stop":null}',
    b'{"model":"m-a","prompt":7,"messages":"x","stream":"yes","stream_options":[],"tools":{},"stop":{"a":[]}}',
    b'{"model":"m-a","messages":[null,1,"x",{"role":3,"content":{"a":[]}},[[]],{"content":[null,7,{"type":9}]}]}',
    b'{"model":"m-a","prompt":[1,[2,"x"],null,{}]}',
    b'{"model":"m-a","prompt":"x","metadata":' + DEEP + b"}",
    b' \r\n\t{ "model" : "m-a" , "prompt" : "\xe6\x97\xa5\xf0\x9f\x98\x80" } \n',
    b'{"\\u006dodel":"m-a","prompt":"x"}',
    b'{"model":"m-\\u0061","prompt":"x"}',
    b'{"":"","model":"m-a","prompt":"","x":"' + b"\\\\" * 70_000 + b'"}',
])
def test_odd_json_arrives_unchanged(made, body):
    assert made.router.post("/v1/chat/completions", body).status == 200
    assert made.engine.requests[0].body == body


def test_sixty_megabytes_of_base64(made):
    image = b"iVBORw0KGgo" * (60_000_000 // 11)
    body = (b'{"model":"m-a","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":'
            b'"data:image/png;base64,' + image + b'"}},{"type":"text","text":"describe"}]}],"seed":9007199254740993}')
    response = made.router.post("/v1/chat/completions", body, timeout=60)
    assert response.status == 200
    assert hashlib.sha256(made.engine.requests[0].body).digest() == hashlib.sha256(body).digest()
    made.router.wait_metric("warmroute_buffered_request_bytes", 0)


# (body, offsets that the message may name: the byte where the text stops being JSON)
BROKEN = [
    (b"", None),
    (b"hello", range(0, 1)),
    (b'\xef\xbb\xbf{"model":"m-a"}', range(0, 4)),
    (b'{"model":"m-a","prompt":"x"', range(26, 28)),
    (b'{"model":"m-a","prompt":"x', range(24, 27)),
    (b'{"model":"m-a","prompt":"x",}', range(27, 30)),
    (b'{"model":"m-a" "prompt":"x"}', range(14, 17)),
    (b'{"model":"m-a","prompt":"\xc3\x28"}', range(24, 28)),
    (b'{"model":"m-a","prompt":"ok","user":"\xff"}', range(36, 38)),
    (b'{"model":"m-a","prompt":"a\tb"}', range(25, 28)),
    (b'{"model":"m-a","prompt":"x"} x', range(28, 31)),
    (b'{"model":"m-a","prompt":"x"}{}', range(27, 30)),
    (b'{"model":"m-a",prompt:"x"}', range(15, 17)),
    (b"{'model':'m-a'}", range(1, 3)),
    (b'{"model":"m-a","messages":[{"role":"user","content":"x"}', range(50, 58)),
]


@pytest.mark.parametrize("body, at", BROKEN)
def test_broken_json_is_a_400_with_its_place(made, body, at):
    response = made.router.post("/v1/chat/completions", body)
    assert (response.status, response.error["type"]) == (400, "invalid_request_error")
    if at is not None:
        place = re.search(r"(?:byte|offset|position) (\d+)", response.error["message"])
        assert place and int(place.group(1)) in at, response.error["message"]
    assert made.asked() == []
    assert made.router.chat().status == 200


def test_every_cut_of_a_request_is_a_400(made):
    body = json.dumps({"model": "m-a", "messages": [{"role": "user", "content": [{"type": "text", "text": "é\\\"\n"}]}],
                       "stream": False, "n": 1}).encode()
    with made.router.connect() as conn:
        for size in range(1, len(body)):
            conn.send(request_bytes("POST", "/v1/chat/completions", body[:size]))
            response = conn.read_response()
            assert response.status == 400, body[:size]
    assert made.asked() == []
