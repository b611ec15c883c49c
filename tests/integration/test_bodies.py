"""Decision 3.4 (bodies are spliced, never re-serialised) and section 4 (what counts as the prompt)."""

import gzip
import json

import pytest
from support import world
from support.engine import DONE_EVENT, USAGE_EVENT, answer, chat, content_event, stream
from support.wire import chunked, request_bytes


@pytest.fixture(name="made")
def _made(stack):
    return stack()


def sent(made, body, path="/v1/chat/completions", headers=()):
    """What the engine received for a body."""
    response = made.router.post(path, body, headers)
    assert response.status == 200, response
    return made.engine.requests[-1].body


ODD = (b'{ "z" : 1,\n\t"seed": 9007199254740993 , "model"\t:  "m-a" , "temperature":1e0, "big":12345678901234567890123,'
       b'"o":{"b":2,"a":1,"b":3},"html":"<&>\\u2028","esc":"\\u00e9\\/\\ud83d\\ude00","prompt":"cut \\ud83d",'
       b'"n":-0,"f":0.1000,"e":[ ] }  \r\n')


def test_bytes_arrive_unchanged_but_the_model(made):
    assert sent(made, ODD) == ODD.replace(b'"m-a"', b'"real-a"')


def test_without_a_model_override_bytes_arrive_unchanged(stack):
    made = stack(server=world.model_server("ms-a", "a"))
    assert sent(made, ODD) == ODD


def test_adapter_names_are_not_replaced(made):
    body = b'{"model":"lora-a1","prompt":"x"}'
    assert sent(made, body) == body


def test_model_written_with_escapes_is_matched_and_replaced(made):
    assert sent(made, b'{"mo\\u0064el":"m\\u002da","prompt":"x"}') == b'{"mo\\u0064el":"real-a","prompt":"x"}'


def test_of_several_models_the_last_counts_and_every_one_is_replaced(made):
    body = b'{"model":"nope","model":"m-a","prompt":"x","o":{"model":"keep"}}'
    assert sent(made, body) == b'{"model":"real-a","model":"real-a","prompt":"x","o":{"model":"keep"}}'


def test_malformed_members_that_nobody_reads_are_left_to_the_engine(made):
    for body in (b'{"model":"m-a","prompt":"x","a":01}', b'{"model":"m-a","prompt":"x","b":tru}'):
        assert sent(made, body) == body.replace(b'"m-a"', b'"real-a"')


def test_deep_members_pass(made):
    body = b'{"model":"m-a","prompt":"x","d":' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert sent(made, body) == body.replace(b'"m-a"', b'"real-a"')


def test_chunked_bodies_arrive_counted(made):
    with made.router.connect() as conn:
        conn.send(b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n" +
                  chunked(b'{"model":"m-a",', b'"prompt":"x"}'))
        assert conn.read_response().status == 200
    seen = made.engine.requests[0]
    assert seen.framing == "content-length" and seen.body == b'{"model":"real-a","prompt":"x"}'


INJECTED = b'"stream_options":{"include_usage":true}'


@pytest.mark.parametrize("before, after", [
    (b'{"model":"m-a","prompt":"x","stream":true}', None),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream_options":null}', None),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream_options":{}}', None),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream_options":{"include_usage":false}}', None),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream_options":{"continuous_usage_stats":true}}',
     {"continuous_usage_stats": True, "include_usage": True}),
    (b'{"stream_options":{"include_usage":"true","x":[1]},"model":"m-a","prompt":"x","stream":true}',
     {"include_usage": True, "x": [1]}),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream_options":"x"}', None),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream":true , "stream_options" : { } }', None),
])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
def test_usage_is_asked_for(made, before, after, path):
    made.engine.answers = [stream([content_event("a"), USAGE_EVENT, DONE_EVENT])]
    got = sent(made, before, path)
    assert json.loads(got)["stream_options"] == (after or {"include_usage": True}), got
    rest = {k: v for k, v in json.loads(got).items() if k != "stream_options"}
    assert rest == {**{k: v for k, v in json.loads(before).items() if k != "stream_options"}, "model": "real-a"}


@pytest.mark.parametrize("body, path", [
    (b'{"model":"m-a","prompt":"x"}', "/v1/completions"),
    (b'{"model":"m-a","prompt":"x","stream":false}', "/v1/completions"),
    (b'{"model":"m-a","prompt":"x","stream":null}', "/v1/completions"),
    (b'{"model":"m-a","prompt":"x","stream":"true"}', "/v1/completions"),
    (b'{"model":"m-a","prompt":"x","stream":1}', "/v1/completions"),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream_options":{"include_usage":true}}', "/v1/completions"),
    (b'{"model":"m-a","prompt":"x","stream":true,"stream":false}', "/v1/completions"),
    (b'{"model":"m-a","input":"x","stream":true}', "/v1/responses"),
    (b'{"model":"m-a","messages":[],"stream":true}', "/v1/messages"),
    (b'{"model":"m-a","input":"x","stream":true}', "/v1/embeddings"),
    (b'{"model":"m-a","o":{"stream":true},"prompt":"x"}', "/v1/chat/completions"),
])
def test_usage_is_not_asked_for(made, body, path):
    assert sent(made, body, path) == body.replace(b'"m-a"', b'"real-a"', 1)


def test_gzip_body_is_read_and_decoded_only_for_a_splice(stack):
    plain = b'{"model":"m-a","prompt":"x"}'
    packed = gzip.compress(plain)
    spliced = stack()
    assert sent(spliced, packed, headers=[("Content-Encoding", "gzip")]) == plain.replace(b'"m-a"', b'"real-a"')
    assert "Content-Encoding" not in spliced.engine.requests[0].headers
    untouched = stack(server=world.model_server("ms-a", "a"))
    assert sent(untouched, packed, headers=[("Content-Encoding", "gzip")]) == packed
    assert untouched.engine.requests[0].headers.get("Content-Encoding") == "gzip"


@pytest.mark.parametrize("body", [
    {"prompt": ["a", "b"]}, {"prompt": [1, 2, 3]}, {"prompt": [[1, 2], [3]]}, {"prompt": []}, {"prompt": ""},
    {"prompt": None, "messages": []}, {"messages": []}, {"input": "x"}, {"input": ["x", "y"]}, {"input": {"a": 1}},
    {"instructions": "do"}, {"system": "s"}, {"messages": "hello"}, {"prompt": 7}, {},
    {"messages": [{"role": "assistant", "content": None, "tool_calls": None}], "tools": None, "stream": None,
     "stream_options": None},
    {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
    {"messages": [None, 1, "x", {"role": 3}]}, {"documents": ["a"], "query": "q"},
])
def test_every_shape_of_prompt_is_served(made, body):
    assert made.router.post("/v1/chat/completions", {"model": "m-a", **body}).status == 200


@pytest.mark.parametrize("body, tokens", [
    ({"prompt": "hello world"}, 3),
    ({"prompt": "日本語版"}, 1),
    ({"prompt": ""}, None),
    ({"prompt": [1, 2, 3]}, 3),
    ({"prompt": [[1, 2], [3, 4, 5]]}, 5),
    ({"prompt": ["abcd", "efgh"]}, 3),  # joined by a newline: 9 characters
    ({"messages": [{"role": "user", "content": "hello world"}]}, 10),
    ({"messages": [{"role": "user", "content": "hello world"}], "tools": [{"x": "y" * 400}]}, 10),
])
def test_token_estimate(made, body, tokens):
    assert made.router.post("/v1/chat/completions", {"model": "m-a", **body}).status == 200
    assert made.router.wait_log()[0].get("input_tokens") == tokens


@pytest.mark.parametrize("path, body, output", [
    ("/v1/chat/completions", '{"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}', 2),
    ("/v1/completions", '{"usage":{"prompt_tokens":3,"completion_tokens":2}}', 2),
    ("/v1/completions", '{"usage":null}', None),
    ("/v1/completions", '{"usage":{"prompt_tokens":"3","completion_tokens":2}}', None),
    ("/v1/embeddings", '{"usage":{"prompt_tokens":3,"total_tokens":3}}', None),
    ("/v1/responses", '{"usage":{"input_tokens":8,"output_tokens":2}}', 2),
    ("/v1/messages", '{"usage":{"input_tokens":8,"cache_read_input_tokens":7,"output_tokens":4}}', 4),
    ("/v1/completions", "no json", None),
])
def test_usage_of_plain_answers(made, path, body, output):
    made.engine.answers = [answer(body)]
    assert made.router.chat(path=path).text == body
    assert made.router.wait_log()[0].get("output_tokens") == output


STREAM = [content_event("日本"), 'data: {"choices":[{"index":0,"delta":{"content":"print(\'data: [DONE]\')"}}]}\n\n',
          USAGE_EVENT, DONE_EVENT]


def test_usage_event_is_removed_at_every_split(stack):
    """One byte or two pieces, cut anywhere: the client's bytes are the same, the usage is counted."""
    made = stack(env={"ACCESS_LOG_ENABLED": "true"})
    whole = "".join(STREAM).encode()
    wanted = whole.replace(USAGE_EVENT.encode(), b"")
    head = {"send": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"}
    cuts = list(range(1, len(whole), 5)) + [None]
    with made.router.connect() as conn:
        for cut in cuts:
            pieces = [whole[:cut], whole[cut:]] if cut else [whole[n : n + 1] for n in range(len(whole))]
            made.engine.answers = [[head, *({"send_bytes": b"%x\r\n%s\r\n" % (len(p), p)} for p in pieces),
                                    {"send": "0\r\n\r\n"}]]
            conn.send(request_bytes("POST", "/v1/chat/completions", {"model": "m-a", "stream": True, "messages": []}))
            response = conn.read_response()
            assert (response.ended, response.body) == ("complete", wanted), cut
    assert all(line["output_tokens"] == 2 for line in made.router.wait_log(len(cuts)))


@pytest.mark.parametrize("events, kept", [
    ([content_event("a"), USAGE_EVENT, DONE_EVENT], [0, 2]),
    ([content_event("a"), 'data: {"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n', DONE_EVENT], [0, 2]),
    (['data: {"choices":[{"delta":{"content":"last"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}\n\n',
      USAGE_EVENT, DONE_EVENT], [0, 2]),
    ([": ping\n\n", content_event("a"), USAGE_EVENT, DONE_EVENT], [0, 1, 3]),
    ([content_event("a").replace("\n", "\r\n"), USAGE_EVENT.replace("\n", "\r\n"), DONE_EVENT.replace("\n", "\r\n")],
     [0, 2]),
    ([content_event("a"), USAGE_EVENT.replace("data: ", "data:"), DONE_EVENT], [0, 2]),
    ([content_event("a"), "id: 1\n" + USAGE_EVENT, DONE_EVENT], [0, 2]),
    ([USAGE_EVENT, content_event("a"), DONE_EVENT], [1, 2]),
])
def test_only_the_usage_event_is_removed(made, events, kept):
    made.engine.answers = [stream(events)]
    response = made.router.chat(stream=True)
    assert response.body == "".join(events[n] for n in kept).encode()
    assert made.router.wait_log()[0]["output_tokens"] == 2


def test_usage_event_asked_for_by_the_client_stays(made):
    made.engine.answers = [stream([content_event("a"), USAGE_EVENT, DONE_EVENT])]
    response = made.router.chat(stream=True, stream_options={"include_usage": True})
    assert USAGE_EVENT.encode() in response.body
    assert made.router.wait_log()[0]["output_tokens"] == 2


@pytest.mark.parametrize("events, output", [
    (['data: {"choices":[],"usage":null}\n\n', content_event("a"), USAGE_EVENT, DONE_EVENT], 2),
    (['data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":%d}}\n\n' % n
      for n in (1, 2, 3)] + [DONE_EVENT], 3),
    (["data: {oops\n\n", USAGE_EVENT], 2),
    ([content_event("a")], None),
])
def test_last_usage_counts_once(made, events, output):
    made.engine.answers = [stream(events)]
    made.router.chat(stream=True)
    assert made.router.wait_log()[0].get("output_tokens") == output
    made.router.wait_metric("kthena_router_tokens_total", output or 0, token_type="output")


def test_responses_and_messages_streams_pass_untouched_and_are_counted(made):
    responses = ['event: response.created\ndata: {"type":"response.created"}\n\n',
                 'event: response.completed\ndata: {"type":"response.completed","response":{"usage":'
                 '{"input_tokens":12,"output_tokens":3}}}\n\n']
    made.engine.answers = [stream(responses)]
    assert made.router.post("/v1/responses", {"model": "m-a", "input": "x", "stream": True}).text == "".join(responses)
    messages = ['event: message_start\ndata: {"type":"message_start","message":{"usage":{"input_tokens":11,'
                '"cache_read_input_tokens":5,"output_tokens":1}}}\n\n',
                'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":22}}\n\n',
                'event: message_stop\ndata: {"type":"message_stop"}\n\n']
    made.engine.answers = [stream(messages)]
    assert made.router.chat(path="/v1/messages", stream=True).text == "".join(messages)
    assert [line["output_tokens"] for line in made.router.wait_log(2)] == [3, 22]


def test_the_answers_model_is_the_engines(made):
    made.engine.answers = [chat(model="real-a")]
    assert made.router.chat().json()["model"] == "real-a"


def test_large_events_pass(made):
    event = content_event("x" * 3_000_000)
    made.engine.answers = [stream([event, USAGE_EVENT, DONE_EVENT])]
    response = made.router.chat(stream=True)
    assert (response.ended, len(response.body)) == ("complete", len(event) + len(DONE_EVENT))
