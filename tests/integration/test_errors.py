"""Errors in default mode: OpenAI error objects (decision 3.1), their status (3.2), each row of the error table."""

import gzip
import json

import pytest
from support import world
from support.engine import answer, vllm_metrics
from support.router import BINARY, DEFAULT_CONFIG
from support.wire import request_bytes

MESSAGES = [{"role": "user", "content": "hi"}]


def many(slot):
    """Routes for each row of the table."""
    return world.join(
        world.simple(slot),
        world.route("mr-noms", "m-noms", "ms-missing"),
        world.model_server("ms-none", "none"), world.route("mr-nopods", "m-nopods", "ms-none"),
        world.model_server("ms-pd", "pd") + "",
        world.route("mr-ext", "m-ext", "", rules="  rules:\n  - name: r\n    targetModels:\n"
                    "    - {externalModelProviderName: p}\n"),
        world.route("mr-rl", "m-rl", "ms-a") + "  rateLimit: {inputTokensPerUnit: 10, unit: hour}\n",
    )


def check(response, status, kind, message, code=None):
    assert response.status == status, response
    assert response.headers.get("Content-Type").startswith("application/json")
    assert set(response.json()) == {"error"}
    error = response.error
    assert list(error) == ["message", "type", "param", "code"]
    assert error["type"] == kind
    assert message in error["message"]
    assert error["param"] is None
    if code:
        assert error["code"] == code
    assert (response.headers.get("Retry-After") is not None) == (status in (429, 503))
    assert response.headers.get("x-request-id")


@pytest.fixture(name="table")
def _table(stack):
    return stack(resources=many)


@pytest.mark.parametrize("body, message", [
    (b"", "empty"),
    (b"   \n", ""),
    (b"hello", ""),
    (b'{"model":"m-a","messages":[', ""),
    (b'{"model":"m-a","prompt":"x",}', ""),
    (b'{"model":"m-a","prompt":"a\tb"}', ""),
    (b'{"model":"m-a","prompt":"\xc3\x28"}', "UTF-8"),
    (b'\xef\xbb\xbf{"model":"m-a","prompt":"x"}', ""),
    (b'[{"model":"m-a"}]', "object"),
    (b'"m-a"', "object"),
    (b'{"model":"m-a","prompt":"x"} trailing', "invalid request body"),
    (b'{"model":"m-a","prompt":"x"}{"model":"m-a","prompt":"y"}', "invalid request body"),
])
def test_broken_bodies_are_400(table, body, message):
    check(table.router.post("/v1/chat/completions", body), 400, "invalid_request_error", message, "request_parsing")
    assert table.asked() == []


@pytest.mark.parametrize("model", ["", ',"model":null', ',"model":7', ',"model":""', ',"model":"  \\t"',
                                   ',"model":["m-a"]'])
def test_a_missing_model_is_400(table, model):
    body = '{"x":1' + model + ',"messages":[]}'
    check(table.router.post("/v1/chat/completions", body), 400, "invalid_request_error", "model not found")


def test_json_null_is_400(table):
    assert table.router.post("/v1/chat/completions", b"null").status == 400


def test_unknown_model(table):
    check(table.router.chat("nope"), 404, "not_found_error", "route not found", "route_not_found")


def test_model_is_used_untrimmed(table):
    check(table.router.chat("m-a "), 404, "not_found_error", "route not found")


def test_missing_model_server(table):
    check(table.router.chat("m-noms"), 404, "not_found_error", "can't find model server: golden/ms-missing",
          "pod_discovery")


def test_model_server_without_pods(table):
    check(table.router.chat("m-nopods"), 503, "overloaded_error",
          "no available pods for model server: golden/ms-none", "pod_discovery")


@pytest.mark.parametrize("model", ["m-ext", "m-rl"])
def test_what_is_not_built_is_never_ignored(table, model):
    check(table.router.chat(model), 503, "overloaded_error", "", "not_supported")
    assert table.asked() == []


def test_all_pods_filtered_is_503(stack):
    busy = stack(metrics=[vllm_metrics(waiting=20)])
    check(busy.router.chat(), 503, "overloaded_error",
          'can\'t schedule to target pod: pods have all been filtered out by "least-request"', "scheduling")


def test_all_pods_failed_is_503(stack):
    dead = stack(listen=False)
    check(dead.router.chat(), 503, "overloaded_error", "request to all pods failed", "proxy")


def test_only_time_outs_is_504(stack):
    slow = stack(answers=[[{"hang": True}]], timeout="300ms")
    check(slow.router.chat(), 504, "timeout_error", "request to all pods failed", "proxy")


def test_unknown_path(table):
    response = table.router.post("/chat/completions", {"model": "m-a", "messages": MESSAGES})
    check(response, 404, "not_found_error", "404 page not found")


def test_unknown_content_encoding_is_415(table):
    response = table.router.post("/v1/chat/completions", b"xx", [("Content-Encoding", "zstd")])
    check(response, 415, "invalid_request_error", "Content-Encoding")


@pytest.mark.parametrize("codings", [("identity", "gzip"), ("gzip", "identity"), ("gzip, gzip",)])
def test_more_than_one_content_encoding_is_415(table, codings):
    """Which of them the engine would follow is unknown."""
    body = gzip.compress(b'{"model":"m-a","prompt":"x"}')
    response = table.router.post("/v1/chat/completions", body, [("Content-Encoding", coding) for coding in codings])
    check(response, 415, "invalid_request_error", "Content-Encoding")
    assert table.asked() == []


def test_broken_gzip_is_400(table):
    response = table.router.post("/v1/chat/completions", b"not gzip", [("Content-Encoding", "gzip")])
    assert response.status == 400 and response.error["type"] == "invalid_request_error"


def test_gzip_bomb_is_413(stack):
    limited = stack(flags=["--max-body-bytes=1048576"])
    bomb = gzip.compress(b'{"model":"m-a","prompt":"' + b"x" * 20_000_000 + b'"}')
    assert len(bomb) < 100_000
    response = limited.router.post("/v1/completions", bomb, [("Content-Encoding", "gzip")])
    assert response.status == 413 and limited.asked() == []


def test_interrupted_body_is_400(table):
    with table.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/chat/completions", b"", [("Content-Length", "100")]) + b'{"model":"m-a"')
        conn.half_close()
        response = conn.read_response()
    assert response.status == 400 and response.error["type"] == "invalid_request_error"


def test_a_missing_prompt_is_no_error(table):
    assert table.router.post("/v1/chat/completions", {"model": "m-a", "max_tokens": 3}).status == 200


def test_messages_path_speaks_anthropic(table):
    response = table.router.chat("nope", path="/v1/messages")
    body = response.json()
    assert response.status == 404
    assert body["type"] == "error"
    assert body["error"]["type"] == "not_found_error"
    assert "route not found" in body["error"]["message"]
    busy = table.router.chat("m-nopods", path="/v1/messages").json()
    assert busy["type"] == "error" and busy["error"]["type"] == "overloaded_error"
    bad = table.router.post("/v1/messages", b"{").json()
    assert bad["type"] == "error" and bad["error"]["type"] == "invalid_request_error"


def test_texts_with_markup_and_quotes_stay_json(table):
    response = table.router.chat('no"pe<&>\u2028')
    assert response.status == 404 and response.error["message"]


def test_model_names_never_reach_the_error_as_raw_bytes(table):
    response = table.router.post("/v1/chat/completions", b'{"model":"a\\ud800","prompt":""}')
    assert response.status == 404
    json.loads(response.body.decode("utf-8"))


def test_compat_mode_answers_as_kthena(stack):
    compat = stack(resources=many, flags=["--compat=kthena"])
    got = compat.router.chat("nope")
    assert (got.status, got.text) == (404, '"route not found"')
    assert got.headers.get("Content-Type") == "application/json; charset=utf-8"
    assert compat.router.post("/v1/chat/completions", {"messages": MESSAGES}).status == 404
    assert compat.router.post("/v1/completions", {"model": "m-a", "prompt": ["a"]}).text == '"prompt not found"'


@pytest.mark.parametrize("how", ["env", "config"])
def test_compat_mode_can_be_set_in_other_ways(stack, how):
    kw = {}
    if how == "env":
        kw["env"] = {"WARMROUTE_COMPAT": "kthena"}
    elif how == "config":
        kw["config"] = "compat: kthena\n" + DEFAULT_CONFIG
    assert stack(**kw).router.chat("nope").text == '"route not found"'


def test_the_old_name_alone_does_not_set_compat_mode(stack, tmp_path):
    made = stack(start=False)
    link = tmp_path / "kthena-router"
    link.symlink_to(BINARY)
    made.router.command[0] = str(link)
    made.router.start()
    assert made.router.chat("nope").error["code"] == "route_not_found"


def test_engine_error_object_is_not_wrapped(stack):
    text = '{"error":{"message":"max_tokens too large","type":"BadRequestError","code":400}}'
    made = stack(2, answers=[answer(text, "400 Bad Request")])
    response = made.router.chat()
    assert (response.status, response.text) == (400, text)
    assert len(made.asked()) == 1
