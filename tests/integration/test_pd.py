"""Prefill/decode pairs: what each connector sends, and faults at each step of each connector."""

import gzip
import json
import threading
import time

import pytest
from support.engine import SSE_HEAD, USAGE_EVENT, answer, chat, content_event, stream
from support.pd import PARAMS, PREFILLED
from support.router import SLOW
from support.wire import request_bytes

CHAT = '{"model":"m","messages":[{"role":"user","content":"hello"}]'
NO = {status: answer('{"error":"no"}', f"{status} X") for status in (400, 404, 422, 429, 500, 503)}
GOOD = chat("decoded")
FAILURES = {
    "404": NO[404], "429": NO[429], "500": NO[500], "503": NO[503], "fin": [{"close": True}], "rst": [{"reset": True}],
    "half a head": [{"send": "HTTP/1.1 200 OK\r\nContent-Ty"}, {"close": True}],
    "head, then fin": [{"send": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"},
                       {"close": True}],
}


def read_some(conn, text, timeout=5):
    """What arrives until `text` is there."""
    got, deadline = b"", time.monotonic() + timeout * SLOW
    while text not in got and time.monotonic() < deadline:
        got += conn.sock.recv(65536)
    assert text in got, got
    return got


class Common:
    """What every connector must do. `p1a` and `d1a` are the first pair, `p2a` and `d2a` the second."""

    connector = ""

    def two(self, pairs, **kw):
        made = pairs(self.connector, ((1, 1), (1, 1)), **kw)
        for name in ("d1a", "d2a"):
            made.engines[name].answers = [GOOD]
        return made

    def sent(self, made, name="1a"):
        return [made.engines[role + name].requests[0].body.decode() for role in "pd"]

    def test_answer_log_and_metrics(self, pairs):
        made = self.two(pairs)
        response = made.chat()
        assert (response.status, response.json()["choices"][0]["message"]["content"]) == (200, "decoded")
        line = made.log()
        assert (line["prefill_pod"], line["selected_pod"]) == ("p1a", "d1a")
        assert (line["output_tokens"], line["upstream_attempts"], line["upstream_model"]) == (2, 1, "real-pd")
        for role in ("prefill", "decode"):
            assert made.router.metric(f"kthena_router_request_{role}_duration_seconds_count", model="m",
                                      path="/v1/chat/completions", status_code="200") == 1
        assert made.router.metric("kthena_router_tokens_total", token_type="output") == 2
        assert made.router.metric("warmroute_attempts_total", outcome="complete") == 2
        made.assert_settled()

    def test_stream_is_relayed_and_usage_asked_of_decode_alone(self, pairs):
        made = self.two(pairs)
        made.d1a.answers = [stream([content_event("one"), content_event("two"), USAGE_EVENT, "data: [DONE]\n\n"])]
        response = made.chat(stream=True)
        assert response.body.decode() == content_event("one") + content_event("two") + "data: [DONE]\n\n"
        prefill, decode = map(json.loads, self.sent(made))
        assert "stream" not in prefill and "stream_options" not in prefill
        assert (decode["stream"], decode["stream_options"]) == (True, {"include_usage": True})
        assert made.log()["output_tokens"] == 2
        made.assert_settled()

    def test_headers_path_and_adapter_reach_both(self, pairs):
        made = self.two(pairs)
        body = CHAT.replace('"m"', '"lora"') + "}"
        made.router.request("POST", "/v1/chat/completions?x=1", body, [
            ("Content-Type", "application/json"), ("Authorization", "Bearer k"), ("X-Request-Id", "rid"),
            ("Connection", "X-Hop"), ("X-Hop", "1")])
        for seen in (made.p1a.requests[0], made.d1a.requests[0]):
            assert seen.target == "/v1/chat/completions?x=1"
            assert (seen.headers.get("Authorization"), seen.headers.get("X-Request-Id")) == ("Bearer k", "rid")
            assert seen.headers.get("X-Hop") is None
            assert json.loads(seen.body)["model"] == "lora"

    def test_packed_body_is_unpacked_where_it_is_changed(self, pairs):
        made = self.two(pairs)
        made.router.request("POST", "/v1/chat/completions", gzip.compress((CHAT + ',"n":1}').encode()),
                            [("Content-Type", "application/json"), ("Content-Encoding", "gzip")])
        for seen in (made.p1a.requests[0], made.d1a.requests[0]):
            assert (json.loads(seen.body)["n"], seen.headers.get("Content-Encoding")) == (1, None)

    @pytest.mark.parametrize("name", FAILURES)
    def test_failed_prefill_tries_the_next_pair(self, pairs, name):
        made = self.two(pairs)
        made.p1a.answers = [FAILURES[name]]
        made.d1a.answers = [[{"hang": True}]]  # it would wait for the prefill for ever
        assert made.chat().status == 200
        assert (made.log()["prefill_pod"], made.log()["selected_pod"]) == ("p2a", "d2a")
        made.assert_settled()

    @pytest.mark.parametrize("name", FAILURES)
    def test_failed_decode_tries_the_next_pair(self, pairs, name):
        made = self.two(pairs)
        made.d1a.answers = [FAILURES[name]]
        assert made.chat().json()["choices"][0]["message"]["content"] == "decoded"
        assert (made.log()["selected_pod"], made.log()["upstream_attempts"]) == ("d2a", 2)
        made.assert_settled()

    @pytest.mark.parametrize("down", ["p1a", "d1a"])
    def test_refused_connections_try_the_next_pair(self, pairs, down):
        made = self.two(pairs)
        made.engines[down].stop()
        assert made.chat().status == 200
        assert (made.log()["prefill_pod"], made.log()["selected_pod"]) == ("p2a", "d2a")
        made.assert_settled()

    @pytest.mark.parametrize("role", ["p", "d"])
    @pytest.mark.parametrize("status", [400, 422])
    def test_refusals_are_the_clients(self, pairs, role, status):
        made = self.two(pairs)
        made.engines[role + "1a"].answers = [NO[status]]
        if role == "p":
            made.d1a.answers = [[{"hang": True}]]
        response = made.chat()
        assert (response.status, response.text) == (status, '{"error":"no"}')
        assert made.log()["error"] == {"type": "upstream_response",
                                       "message": f"pod golden/{role}1a returned HTTP {status}"}
        assert made.p2a.requests == made.d2a.requests == []
        made.assert_settled()

    @pytest.mark.parametrize("role", ["p", "d"])
    def test_last_answer_is_relayed_when_all_failed(self, pairs, role):
        made = self.two(pairs)
        for number in "12":
            made.engines[f"{role}{number}a"].answers = [NO[503]]
        assert made.chat().status == 503
        assert made.log()["error"]["message"] == f"pod golden/{role}2a returned HTTP 503"
        made.assert_settled()

    def test_without_any_answer_it_is_503(self, pairs):
        made = self.two(pairs)
        for engine in made.engines.values():
            engine.stop()
        response = made.chat()
        assert response.status == 503
        assert response.error["message"] == "all prefill/decode attempts failed"
        made.assert_settled()

    @pytest.mark.parametrize("role", ["p", "d"])
    def test_time_out_reaches_both_calls(self, pairs, role):
        made = self.two(pairs, trafficPolicy={"timeout": "300ms"})
        for number in "12":
            made.engines[f"{role}{number}a"].answers = [[{"hang": True}]]
        started = time.monotonic()
        assert made.chat().status == 504
        assert time.monotonic() - started < 3 * SLOW
        made.engines[role + "1a"].wait_peer_closed()
        made.assert_settled()

    def test_cut_in_mid_stream_is_seen_and_nothing_is_appended(self, pairs):
        made = self.two(pairs)
        made.d1a.answers = [stream([content_event("one")], end=False) + [{"wait_ms": 50}, {"close": True}]]
        response = made.chat(stream=True)
        assert response.ended == "truncated"
        assert response.text.startswith(content_event("one") + 'data: {"error":')
        assert made.d2a.requests == []
        assert made.log()["error"]["type"] == "upstream_cut"
        made.assert_settled()

    def test_client_that_leaves_in_mid_stream_ends_decode(self, pairs):
        made = self.two(pairs)
        made.d1a.answers = [stream([content_event("one")], end=False) + [{"hang": True}]]
        with made.router.connect() as conn:
            conn.send(request_bytes("POST", "/v1/chat/completions", CHAT + ',"stream":true}'))
            read_some(conn, b"one")
        made.d1a.wait_peer_closed()
        assert made.log()["error"]["type"] == "client_disconnected"
        made.assert_settled()

    def test_client_that_leaves_during_prefill_ends_all(self, pairs):
        made = self.two(pairs)
        for name in ("p1a", "d1a"):
            made.engines[name].answers = [[{"hang": True}]]
        with made.router.connect() as conn:
            conn.send(request_bytes("POST", "/v1/chat/completions", CHAT + "}"))
            made.p1a.wait_requests(1)
        left = time.monotonic()
        assert made.p1a.wait_peer_closed() - left < 1 * SLOW
        if made.d1a.requests:
            made.d1a.wait_peer_closed()
        assert made.log()["status_code"] == 499
        assert made.p2a.requests == made.d2a.requests == []
        made.assert_settled()

    def test_both_pods_are_free_again_after_failures(self, pairs):
        made = self.two(pairs)
        made.p1a.answers = [NO[500], NO[429], NO[400], PREFILLED]
        made.d1a.answers = [GOOD]
        for number in range(3):  # different prompts, or the pair that served one would be preferred
            made.chat(f"prompt {number}")
        assert len(made.p1a.requests) == 3
        made.assert_settled()
        time.sleep(0.2 * SLOW)  # a decode request that was given up may reach its engine after the answer
        made.forget()
        assert made.chat("another prompt").status == 200  # no pod has this one
        assert sorted(made.asked()) == ["d1a", "p1a"]  # a guard that was kept would make the second pair better


class InTurn(Common):
    def test_decode_is_asked_when_prefill_is_complete(self, pairs):
        made = self.two(pairs)
        done = threading.Event()
        body = PREFILLED[0]["send_bytes"]
        made.p1a.answers = [[{"send_bytes": body[:-5]}, {"wait_for": done}, {"send_bytes": body[-5:]}]]
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(made.chat()))
        waiting.start()
        made.p1a.wait_requests(1)
        time.sleep(0.2)
        assert made.d1a.requests == []
        done.set()
        waiting.join(10)
        assert answers[0].status == 200
        assert made.asked() == ["p1a", "d1a"]

    def test_failed_prefill_never_starts_a_decode(self, pairs):
        made = self.two(pairs)
        made.p1a.answers = [NO[500]]
        made.chat()
        assert made.asked() == ["p1a", "p2a", "d2a"]

    def test_cut_prefill_answer_is_a_failure(self, pairs):
        made = self.two(pairs)
        made.p1a.answers = [[{"send_bytes": PREFILLED[0]["send_bytes"][:-5]}, {"close": True}]]
        assert made.chat().status == 200
        assert made.asked() == ["p1a", "p2a", "d2a"]

    def test_connections_to_prefill_pods_are_kept(self, pairs):
        made = self.two(pairs)
        with made.router.connect() as conn:  # one worker, so one pool
            for _ in range(3):
                conn.send(request_bytes("POST", "/v1/chat/completions", CHAT + "}"))
                assert conn.read_response("POST").status == 200
        assert len({s.connection for s in made.p1a.requests}) == 1


class TestHttp(InTurn):
    connector = "http"

    def test_what_is_sent(self, pairs):
        made = self.two(pairs)
        made.router.post("/v1/chat/completions", CHAT + ',"max_tokens":50,"max_completion_tokens":9,"n":1e400}')
        common = CHAT.replace('"m"', '"real-pd"')
        assert self.sent(made) == [common + ',"max_tokens":1,"max_completion_tokens":1,"n":1e400}',
                                   common + ',"max_tokens":50,"max_completion_tokens":9,"n":1e400}']


class TestLmcache(TestHttp):
    connector = "lmcache"


class TestNixl(InTurn):
    connector = "nixl"

    def test_what_is_sent(self, pairs):
        made = self.two(pairs)
        made.router.post("/v1/chat/completions", CHAT + "}")
        rest = CHAT.replace('"m"', '"real-pd"')[1:] + "}"
        assert self.sent(made) == [
            '{"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false},' + rest,
            '{"kv_transfer_params":' + PARAMS + "," + rest]

    def test_parameters_of_a_packed_answer(self, pairs):
        made = self.two(pairs)
        packed = gzip.compress(PREFILLED[0]["send_bytes"].split(b"\r\n\r\n", 1)[1])
        made.p1a.answers = [answer(packed, headers=[("Content-Encoding", "gzip")])]
        assert made.chat().status == 200
        assert PARAMS in self.sent(made)[1]

    @pytest.mark.parametrize("body", ["no json", "[1]", "", '{"kv_transfer_params":1'])
    def test_answer_without_sense_tries_the_next_pair(self, pairs, body):
        made = self.two(pairs)
        made.p1a.answers = [answer(body)]
        assert made.chat().status == 200
        assert made.asked() == ["p1a", "p2a", "d2a"]

    def test_missing_parameters_become_null(self, pairs):
        made = self.two(pairs)
        made.p1a.answers = [answer('{"id":"p"}')]
        assert made.chat().status == 200
        assert '"kv_transfer_params":null' in self.sent(made)[1]


class TestMooncake(TestNixl):
    connector = "mooncake"


class TestSglang(Common):
    connector = "sglang"

    def test_what_is_sent(self, pairs):
        made = self.two(pairs)
        made.router.post("/v1/chat/completions", CHAT + ',"bootstrap_room":1}')
        prefill, decode = self.sent(made)
        room = json.loads(prefill)["bootstrap_room"]
        assert room != 1 and 0 <= room < 2 ** 63
        rest = CHAT.replace('"m"', '"real-pd"')[1:] + f',"bootstrap_room":{room}}}'
        assert prefill == '{"max_tokens":1,' + rest
        assert decode == f'{{"bootstrap_host":"{made.p1a.address[0]}",' + rest

    def test_each_try_has_its_room(self, pairs):
        made = self.two(pairs)
        made.d1a.answers = [[{"wait_ms": 100}] + NO[500]]
        assert made.chat().status == 200
        rooms = [json.loads(made.engines[n].requests[0].body)["bootstrap_room"] for n in ("p1a", "d1a", "p2a", "d2a")]
        assert rooms[0] == rooms[1] != rooms[2] == rooms[3]

    def test_both_are_asked_at_once_and_decode_waits_for_prefill(self, pairs):
        made = self.two(pairs)
        done = threading.Event()
        made.p1a.answers = [[{"wait_for": done}] + PREFILLED]
        with made.router.connect() as conn:
            conn.send(request_bytes("POST", "/v1/chat/completions", CHAT + "}"))
            made.d1a.wait_requests(1)
            made.p1a.wait_requests(1)
            conn.sock.settimeout(0.3)
            with pytest.raises(TimeoutError):
                conn.sock.recv(1)
            done.set()
            conn.sock.settimeout(5)
            assert conn.read_response("POST").status == 200
        made.assert_settled()

    def test_failed_prefill_ends_decode(self, pairs):
        made = self.two(pairs)
        made.p1a.answers = [[{"wait_ms": 100}] + NO[500]]
        made.d1a.answers = [[{"send": SSE_HEAD}, {"hang": True}]]  # begins, and waits for the cache
        assert made.chat().status == 200
        made.d1a.wait_peer_closed()
        made.assert_settled()

    def test_failed_decode_ends_prefill(self, pairs):
        made = self.two(pairs)
        made.p1a.answers = [[{"hang": True}]]
        made.d1a.answers = [[{"wait_ms": 100}] + NO[500]]
        assert made.chat().status == 200
        made.p1a.wait_peer_closed()
        assert made.log()["selected_pod"] == "d2a"
        made.assert_settled()

    def test_client_that_leaves_ends_both(self, pairs):
        made = self.two(pairs)
        for name in ("p1a", "d1a"):
            made.engines[name].answers = [[{"hang": True}]]
        with made.router.connect() as conn:
            conn.send(request_bytes("POST", "/v1/chat/completions", CHAT + "}"))
            made.p1a.wait_requests(1)
            made.d1a.wait_requests(1)
        made.p1a.wait_peer_closed()
        made.d1a.wait_peer_closed()
        made.assert_settled()
