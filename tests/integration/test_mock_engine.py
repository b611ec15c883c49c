"""The mock engine over real sockets: shapes, cache, queue, faults, control."""

import base64
import gzip
import json
import os
import pathlib
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUTER = os.environ.get("WR_BIN", ROOT / "build" / "release" / "warmroute")
BINARY = os.environ.get("WR_MOCK_ENGINE", pathlib.Path(ROUTER).parent / "tools" / "mock-engine" / "mock-engine")


class Engine:
    def __init__(self, *options):
        self.process = subprocess.Popen([str(BINARY), "--port", "0", "--model", "m", *options],
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), line
        self.port = int(line.rsplit(":", 1)[1])

    def stop(self):
        self.process.terminate()
        assert self.process.wait(10) == 0

    def call(self, path, body=None, headers=None, method=None):
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data=data, headers=headers or {},
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def json(self, path, body=None, **kw):
        status, _, data = self.call(path, body, **kw)
        assert status == 200, data
        return json.loads(data)

    def raw(self, head, body=b"", read=True):
        sock = socket.create_connection(("127.0.0.1", self.port), 10)
        sock.settimeout(10)
        sock.sendall(head.replace("\n", "\r\n").encode() + body)
        if not read:
            return sock
        data = b""
        try:
            while part := sock.recv(65536):
                data += part
        except ConnectionResetError:
            data += b"<RST>"
        sock.close()
        return data

    def post_raw(self, path, body, headers="", read=True):
        data = json.dumps(body).encode()
        return self.raw(f"POST {path} HTTP/1.1\nHost: e\nConnection: close\nContent-Length: {len(data)}\n{headers}\n",
                        data, read)

    def wait_for(self, what, seconds=5):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = self.json("/control")
            if what(state):
                return state
            time.sleep(0.02)
        raise AssertionError(state)


@pytest.fixture
def start():
    engines = []

    def make(*options):
        engines.append(Engine(*options))
        return engines[-1]

    yield make
    for engine in engines:
        engine.stop()


def chat(text="hello", **more):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def events(data):
    return [json.loads(line[6:]) for line in data.decode().split("\n")
            if line.startswith("data: ") and line != "data: [DONE]"]


def test_chat_and_completions(start):
    engine = start("--max-tokens", "5")
    answer = engine.json("/v1/chat/completions", chat())
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == 5
    assert len(answer["choices"][0]["message"]["content"].split()) == 5
    answer = engine.json("/v1/completions", {"model": "m", "prompt": ["a", "b"], "n": 2, "max_tokens": 3})
    assert [c["index"] for c in answer["choices"]] == [0, 1, 2, 3]
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["prompt_tokens"] == 2


def test_chat_stream(start):
    engine = start()
    body = chat(stream=True, max_tokens=7, stream_options={"include_usage": True})
    _, headers, data = engine.call("/v1/chat/completions", body)
    assert headers["content-type"].startswith("text/event-stream")
    assert data.endswith(b"data: [DONE]\n\n")
    list_ = events(data)
    text = "".join(e["choices"][0]["delta"].get("content", "") for e in list_ if e["choices"])
    assert len(text.split()) == 7
    assert list_[-1]["choices"] == [] and list_[-1]["usage"]["completion_tokens"] == 7
    _, _, data = engine.call("/v1/chat/completions", chat(stream=True))
    assert all("usage" not in e for e in events(data))


def test_tools(start):
    engine = start()
    tool = {"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"]}}}
    answer = engine.json("/v1/chat/completions", chat(tools=[tool]))
    call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "weather" and json.loads(call["arguments"]) == {"city": "mock", "days": 1}
    _, _, data = engine.call("/v1/chat/completions", chat(tools=[tool], stream=True))
    arguments = "".join(d["function"]["arguments"] for e in events(data) if e["choices"]
                        for d in e["choices"][0]["delta"].get("tool_calls", []))
    assert json.loads(arguments) == {"city": "mock", "days": 1}
    body = chat(tools=[tool])
    body["messages"].append({"role": "tool", "tool_call_id": "x", "content": "sunny"})
    assert engine.json("/v1/chat/completions", body)["choices"][0]["message"]["content"]
    assert engine.json("/v1/chat/completions", chat(tools=[tool], tool_choice="none"))["choices"][0]["message"]["content"]


def test_responses_and_messages(start):
    engine = start()
    answer = engine.json("/v1/responses", {"model": "m", "input": "hi", "instructions": "be brief"})
    assert answer["status"] == "completed" and answer["output"][0]["content"][0]["text"]
    _, _, data = engine.call("/v1/responses", {"model": "m", "input": "hi", "stream": True})
    types = [e["type"] for e in events(data)]
    assert types[0] == "response.created" and types[-1] == "response.completed"
    assert [e["sequence_number"] for e in events(data)] == list(range(len(types)))
    body = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}
    answer = engine.json("/v1/messages", body)
    assert answer["stop_reason"] == "max_tokens" and answer["usage"]["output_tokens"] == 4
    _, _, data = engine.call("/v1/messages", {**body, "stream": True})
    types = [e["type"] for e in events(data)]
    assert types[0] == "message_start" and types[-1] == "message_stop" and types.count("content_block_delta") == 4
    assert engine.json("/v1/messages/count_tokens", body)["input_tokens"] > 0


def test_pooling(start):
    engine = start()
    answer = engine.json("/v1/embeddings", {"model": "m", "input": ["a", "b", "a"], "dimensions": 4})
    vectors = [d["embedding"] for d in answer["data"]]
    assert vectors[0] == vectors[2] != vectors[1] and len(vectors[0]) == 4
    assert abs(sum(v * v for v in vectors[0]) - 1) < 1e-5
    coded = engine.json("/v1/embeddings", {"model": "m", "input": "a", "dimensions": 4, "encoding_format": "base64"})
    decoded = struct.unpack("<4f", base64.b64decode(coded["data"][0]["embedding"]))
    assert decoded == pytest.approx(vectors[0])
    ranked = engine.json("/v1/rerank", {"model": "m", "query": "red fox", "top_n": 2,
                                        "documents": ["blue whale", "a red fox", "red"]})
    assert [r["index"] for r in ranked["results"]] == [1, 2]
    scores = engine.json("/v1/score", {"model": "m", "text_1": "red fox", "text_2": ["red", "red fox"]})
    assert [d["score"] for d in scores["data"]] == [0.5, 1.0]
    assert engine.json("/tokenize", {"model": "m", "prompt": "12345678"})["count"] == 2


def test_errors(start):
    engine = start()
    assert engine.call("/v1/chat/completions", {"model": "other", "messages": []})[0] == 404
    assert engine.call("/v1/chat/completions", b"{")[0] == 400
    assert engine.call("/v1/chat/completions", {"model": "m"})[0] == 400
    assert engine.call("/nothing", {"model": "m"})[0] == 404
    assert engine.call("/v1/chat/completions", method="GET")[0] == 405
    status, _, data = engine.call("/v1/chat/completions", chat(), {"x-mock-fault": "explode=1"})
    assert status == 400 and b"unknown fault" in data


@pytest.mark.alone
def test_prefix_cache(start):
    engine = start("--cache-blocks", "64", "--block-size", "4", "--prefill-tokens-per-second", "1000")
    text = "x" * 1600
    begin = time.monotonic()
    cold = engine.json("/v1/chat/completions", chat(text))
    cold_seconds = time.monotonic() - begin
    assert cold["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert cold_seconds > 0.35
    assert engine.json("/control")["cache"]["blocks"] == 64
    state = engine.json("/control", {"reset_cache": True})
    assert state["cache"]["blocks"] == 0
    short = "y" * 600
    engine.json("/v1/chat/completions", chat(short))
    begin = time.monotonic()
    warm = engine.json("/v1/chat/completions", chat(short))
    usage = warm["usage"]
    assert usage["prompt_tokens"] - 8 <= usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]
    assert time.monotonic() - begin < 0.15
    # A second turn finds the first answer in the cache too.
    body = chat(short)
    body["messages"] += [{"role": "assistant", "content": warm["choices"][0]["message"]["content"]},
                         {"role": "user", "content": "and now?"}]
    again = engine.json("/v1/chat/completions", body)["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert again > usage["prompt_tokens"]


def test_batch_limit_and_cancel(start):
    engine = start("--max-batch", "1", "--decode-tokens-per-second", "20", "--max-tokens", "1000")
    first = engine.post_raw("/v1/chat/completions", chat(stream=True), read=False)
    assert b"200 OK" in first.recv(100)
    second = engine.post_raw("/v1/chat/completions", chat(), read=False)
    state = engine.wait_for(lambda s: s["waiting"] == 1)
    assert state["running"] == 1 and state["in_flight"] == 2
    metrics = engine.call("/metrics")[2].decode()
    assert 'vllm:num_requests_waiting{engine="0",model_name="m"} 1' in metrics
    first.close()
    engine.wait_for(lambda s: s["cancelled"] == 1 and s["waiting"] == 0 and s["running"] == 1, 1)
    second.shutdown(socket.SHUT_WR)
    engine.wait_for(lambda s: s["cancelled"] == 2 and s["in_flight"] == 0, 1)
    second.close()


@pytest.mark.alone
def test_pace(start):
    engine = start("--decode-tokens-per-second", "50")
    begin = time.monotonic()
    engine.call("/v1/chat/completions", chat(stream=True, max_tokens=16))
    assert 0.28 < time.monotonic() - begin < 1


def test_echo(start):
    engine = start()
    data = engine.raw("PUT /any?x=%20 HTTP/1.1\nHost: e\nB: 1\nA: 2\nB: 3\nx-mock-echo: 1\nConnection: close\n"
                      "Transfer-Encoding: chunked\n\n", b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    echo = json.loads(data.split(b"\r\n\r\n", 1)[1])
    assert echo["method"] == "PUT" and echo["target"] == "/any?x=%20" and echo["body"] == "abcde"
    assert [n for n, _ in echo["headers"]][:4] == ["Host", "B", "A", "B"]
    echo = engine.json("/x", b"\xff\xfe", headers={"x-mock-echo": "1"})
    assert base64.b64decode(echo["body_base64"]) == b"\xff\xfe"


def test_faults(start):
    engine = start("--name", "one")

    def fault(text, **more):
        return engine.post_raw("/v1/chat/completions", chat(**more), f"x-mock-fault: {text}\n")

    assert fault("status=503; retry-after=7").startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
    assert b"retry-after: 7" in fault("status=503; retry-after=7")
    assert fault("status=503; only=two").startswith(b"HTTP/1.1 200")
    assert fault("reset=before-headers") == b"<RST>"
    assert fault("close=before-headers") == b""
    after = fault("close=after-headers")
    assert after.startswith(b"HTTP/1.1 200") and after.endswith(b"\r\n\r\n")
    cut = fault("close=mid-stream", stream=True)
    assert 3 < cut.count(b"data: ") < 14 and b"[DONE]" not in cut
    assert b"not-a-size" in fault("bad-chunk", stream=True)
    assert b"not-a-size" in fault("bad-chunk")
    assert len(fault("huge-headers=9000").split(b"\r\n\r\n")[0]) > 9000
    short = fault("truncate=10")
    assert len(short.split(b"\r\n\r\n", 1)[1]) == 10
    assert engine.json("/control")["cancelled"] == 0
    begin = time.monotonic()
    whole = fault("drip=1", max_tokens=1)
    assert whole.startswith(b"HTTP/1.1 200") and time.monotonic() - begin > 0.3
    stalled = engine.post_raw("/v1/chat/completions", chat(), "x-mock-fault: stall=before-headers\n", read=False)
    engine.wait_for(lambda s: s["in_flight"] == 1)
    stalled.close()
    engine.wait_for(lambda s: s["in_flight"] == 0)
    stalled = engine.post_raw("/v1/chat/completions", chat(stream=True), "x-mock-fault: stall=mid-stream\n", read=False)
    assert b"data: " in stalled.recv(100000)
    engine.wait_for(lambda s: s["running"] == 1)
    stalled.close()
    engine.wait_for(lambda s: s["running"] == 0)


@pytest.mark.parametrize("extra", [b"", b"P"])
def test_leaving_is_seen_on_a_kept_connection_and_behind_extra_bytes(start, extra):
    engine = start("--decode-tokens-per-second", "40")

    def ask(prompt, fault=""):
        data = json.dumps({"model": "m", "max_tokens": 4, "prompt": prompt}).encode()
        return b"POST /v1/completions HTTP/1.1\r\nHost: e\r\n%sContent-Length: %d\r\n\r\n" % (fault.encode(), len(data)) + data

    for _ in range(5):
        sock = socket.create_connection(("127.0.0.1", engine.port), 10)
        sock.sendall(ask("short"))  # its watch is still armed when the next request comes, in several reads
        assert sock.recv(100000).startswith(b"HTTP/1.1 200")
        sock.sendall(ask("y" * 300000, "x-mock-fault: stall=before-headers\r\n") + extra)
        engine.wait_for(lambda s: s["in_flight"] == 1)
        time.sleep(0.05)
        sock.close()
        assert engine.wait_for(lambda s: s["in_flight"] == 0, 2)["running"] == 0


def test_content_encodings_of_requests(start):
    engine = start()
    packed = gzip.compress(json.dumps(chat()).encode())
    assert engine.call("/v1/chat/completions", packed, {"Content-Encoding": "gzip"})[0] == 200
    status, _, data = engine.call("/v1/chat/completions", packed[:40], {"Content-Encoding": "gzip"})
    assert status == 400 and b"not valid gzip" in data
    assert engine.call("/v1/chat/completions", packed, {"Content-Encoding": "zstd"})[0] == 415


def test_control(start):
    engine = start("--dp", "2", "--lora", "ad")
    engine.json("/control", {"running": [3, 4], "waiting": 5, "kv_usage": 0.25, "ttft": {"sum": 2, "count": 4}})
    metrics = engine.call("/metrics")[2].decode()
    assert 'vllm:num_requests_running{engine="1",model_name="m"} 4' in metrics
    assert 'vllm:num_requests_waiting{engine="0",model_name="m"} 5' in metrics
    assert 'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25' in metrics
    assert 'vllm:time_to_first_token_seconds_sum{engine="0",model_name="m"} 2' in metrics
    assert 'vllm:time_to_first_token_seconds_count{engine="0",model_name="m"} 4' in metrics
    engine.json("/control", {"running": None})
    assert 'vllm:num_requests_running{engine="1",model_name="m"} 0' in engine.call("/metrics")[2].decode()
    engine.json("/control", {"faults": [{"fault": "status=429", "count": 2}]})
    codes = [engine.call("/v1/chat/completions", chat())[0] for _ in range(3)]
    assert codes == [429, 429, 200]
    assert engine.call("/v1/models")[0] == 200
    engine.json("/control", {"metrics": "hang"})
    sock = engine.raw("GET /metrics HTTP/1.1\nHost: e\n\n", read=False)
    sock.settimeout(0.3)
    with pytest.raises(TimeoutError):
        sock.recv(1)
    sock.close()
    engine.json("/control", {"metrics": "ok"})
    assert engine.call("/metrics")[0] == 200
    assert engine.call("/control", {"runing": 1})[0] == 400
    state = engine.json("/control")
    assert state["requests"] == 3 and state["last_request"]["target"] == "/v1/chat/completions"


def test_loras(start):
    engine = start("--lora", "ad")

    def models():
        return [m["id"] for m in engine.json("/v1/models")["data"]]

    assert models() == ["m", "ad"]
    assert engine.json("/v1/chat/completions", {**chat(), "model": "ad"})["model"] == "ad"
    assert engine.call("/v1/load_lora_adapter", {"lora_name": "new", "lora_path": "/x"})[0] == 200
    assert engine.call("/v1/load_lora_adapter", {"lora_name": "new", "lora_path": "/x"})[0] == 400
    assert engine.call("/v1/unload_lora_adapter", {"lora_name": "ad"})[0] == 200
    assert models() == ["m", "new"]
    assert engine.call("/v1/chat/completions", {**chat(), "model": "ad"})[0] == 404


@pytest.mark.parametrize("options, names", [
    ((), ("vllm:kv_cache_usage_perc", "vllm:inter_token_latency_seconds_count")),
    (("--old-metrics",), ("vllm:gpu_cache_usage_perc", "vllm:time_per_output_token_seconds_count")),
    (("--engine", "sglang"), ("sglang:token_usage", "sglang:num_running_reqs", "sglang:num_queue_reqs")),
])
def test_metric_names(start, options, names):
    page = start(*options).call("/metrics")[2].decode()
    for name in names:
        assert f"\n{name}{{" in page


def test_connections(start):
    engine = start("--keep-alive", "1")
    one = "GET /health HTTP/1.1\nHost: e\n\n"
    sock = engine.raw(one + one, read=False)
    data = b""
    begin = time.monotonic()
    while part := sock.recv(65536):
        data += part
    assert data.count(b"HTTP/1.1 200 OK") == 2 and 0.8 < time.monotonic() - begin < 3
    old = engine.raw("GET /health HTTP/1.0\n\n")
    assert b"connection: close" in old
    assert engine.raw("BROKEN\n\n").startswith(b"HTTP/1.1 400")
    stream = json.dumps(chat(stream=True)).encode()
    old = engine.raw(f"POST /v1/chat/completions HTTP/1.0\nContent-Length: {len(stream)}\n\n", stream)
    assert b"chunked" not in old and old.endswith(b"data: [DONE]\n\n")
