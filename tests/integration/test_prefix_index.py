"""prefix-cache over the real router and mock engines: what is sized, carried over, credited, learned and explained."""

import concurrent.futures
import gzip
import json
import os
import pathlib
import re
import stat
import subprocess
import time

import pytest
from support import world
from support.router import MOCK_ENGINE, Router, wait_for
from support.slots import Slot
from support.wire import exchange, request_bytes

SLICE = pathlib.Path(__file__).parent / "data" / "conversation_slice.txt"
PREFIX = "warmroute_prefix_cache_"


class Mock:
    """One mock engine on an address of the slot."""

    def __init__(self, slot, number, *options):
        self.name = f"mock-{number}"
        self.host = slot.ip(number)
        self.command = [MOCK_ENGINE, "--bind", self.host, "--port", "8000", "--name", self.name, "--model", "real-a",
                        *options]
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline().startswith("listening on ")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)

    def control(self, body=None):
        method = "GET" if body is None else "POST"
        answer = exchange((self.host, 8000), request_bytes(method, "/control", body or b""), method)
        assert answer.status == 200, answer
        return json.loads(answer.text)


class Fleet:
    def __init__(self, count, args, engine_options=(), weight=1, engine="vLLM"):
        self.slot = Slot()
        self.engines = [Mock(self.slot, number, *engine_options) for number in range(1, count + 1)]
        text = world.join(
            world.model_server("ms-a", "a", model="real-a", engine=engine), world.route("mr-a", "m-a", "ms-a"),
            world.static_pods("pool", "a", [f"{engine.host}:8000" for engine in self.engines]))
        scores = [("prefix-cache", weight), ("least-request", 1)]
        config = ("scheduler:\n  pluginConfig:\n  - name: prefix-cache\n    args: {" + args + "}\n  plugins:\n"
                  "    Filter:\n      enabled: []\n    Score:\n      enabled:\n"
                  + "".join(f"      - {{name: {name}, weight: {points}}}\n" for name, points in scores))
        self.router = Router(text, config, (), {"METRICS_SCRAPE_INTERVAL": "200ms"}, slot=self.slot)

    def ask(self, prompt, **members):
        headers = members.pop("headers", ())
        answer = self.router.post("/v1/completions", {"model": "m-a", "prompt": prompt, "max_tokens": 1, **members},
                                  (("Content-Type", "application/json"), *headers))
        return answer

    def share(self, which):
        """Sum and count of one of the two histograms."""
        name = f"{PREFIX}{which}_share"
        return self.router.metric(f"{name}_sum"), self.router.metric(f"{name}_count")

    def explain(self, body, query="", headers=()):
        data = json.dumps(body).encode() if isinstance(body, dict) else body
        request = request_bytes("POST", "/debug/explain" + query, data, headers)
        return exchange(self.router.debug_address, request, "POST")

    def close(self, check=True):
        try:
            self.router.stop(check)
        finally:
            for engine in self.engines:
                engine.stop()
            self.slot.release()


@pytest.fixture
def fleet(starter):
    return starter(Fleet)


def text(name, size=4096):
    return "".join(f"{name} {i:05d} " for i in range(size // (len(name) + 7) + 1))[:size]


def trace_prompts(count):
    """Prompts whose blocks of 64 bytes are equal where the trace's blocks of 512 tokens are."""
    for line in SLICE.read_text(encoding="ascii").splitlines()[:count]:
        blocks = []
        for part in line.split(","):
            first, _, last = part.partition("-")
            blocks += range(int(first), int(last or first) + 1)
        yield "".join(f"{number:08d}".ljust(64, "abcdefgh"[number % 8]) for number in blocks)


# sized from the engine

def replay(made, count):
    for prompt in trace_prompts(count):
        assert made.ask(prompt).status == 200
    predicted, seen = made.share("predicted")
    actual, _ = made.share("actual")
    assert seen == count
    return predicted / count, actual / count


def test_auto_predicts_what_a_conversation_trace_reuses(fleet):
    """A slice of a public conversation trace; four engines whose caches hold a part of it."""
    count = 1500
    made = fleet(4, "maxHashCacheSize: auto, maxBlocksToMatch: 4096", ("--cache-blocks", "2500"))
    predicted, actual = replay(made, count)
    print(f"auto: predicted {predicted:.3f}, actual {actual:.3f}")
    assert abs(predicted - actual) <= 0.05
    entries = made.router.metric("kthena_router_prefix_cache_entries")
    assert 4 * 2500 * 0.8 <= entries <= 4 * 2500 * 1.2
    # The same traffic with an index that believes in more than the engines keep.
    plain = fleet(4, "maxBlocksToMatch: 4096", ("--cache-blocks", "2500"))
    believed, kept = replay(plain, count)
    print(f"50000: predicted {believed:.3f}, actual {kept:.3f}")
    assert believed - kept > abs(predicted - actual)


def test_auto_with_growing_chats_and_the_other_dialect(fleet):
    """Multi-turn chats; the engine's blocks do not line up with the router's, and answers take room too."""
    made = fleet(1, "maxHashCacheSize: auto, maxBlocksToMatch: 1000",
                 ("--cache-blocks", "400", "--block-size", "20", "--engine", "sglang"), engine="SGLang")
    turns = {}
    for step in range(240):
        chat = step * 7 % 23
        messages = turns.setdefault(chat, [{"role": "system", "content": text(f"system {chat}", 700)}])
        messages.append({"role": "user", "content": text(f"question {step}", 200)})
        answer = made.router.post("/v1/chat/completions", {"model": "m-a", "messages": messages, "max_tokens": 8})
        assert answer.status == 200
        messages.append({"role": "assistant", "content": json.loads(answer.text)["choices"][0]["message"]["content"]})
        if len(messages) > 9:
            del turns[chat]
    predicted, count = made.share("predicted")
    actual, _ = made.share("actual")
    print(f"chat: predicted {predicted / count:.3f}, actual {actual / count:.3f}")
    assert abs(predicted - actual) / count <= 0.05


# warm restart

def test_a_snapshot_survives_a_restart_of_the_router(fleet, tmp_path):
    path = tmp_path / "index.snapshot"
    made = fleet(3, f"prefixCacheSnapshot: {path}, prefixCacheSnapshotSeconds: 1", weight=10)
    owners = {}
    for number in range(30):
        answer = made.ask(text(f"prompt {number}"))
        owners[number] = answer.headers.get("x-mock-engine")
    wait_for(path.exists, 5, "the first snapshot")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    entries = made.router.metric("kthena_router_prefix_cache_entries")
    assert entries > 1000
    made.router.signal(2)
    assert made.router.wait_exit() == 0
    made.router.exit_code = None
    # One engine restarts while the router is away: its part must not be believed.
    gone = made.engines[0]
    gone.stop()
    time.sleep(1.2)
    gone.start()
    made.router.start()
    made.router.wait_stderr("restored")
    wait_for(lambda: made.router.stderr().count("prefix-cache: restored") == 2, 5, "both pods restored")
    assert made.router.metric(f"{PREFIX}snapshot_age_seconds") < 60
    for number, owner in owners.items():
        answer = made.ask(text(f"prompt {number}"))
        if owner == gone.name:
            continue
        assert answer.headers.get("x-mock-engine") == owner, number
        assert json.loads(answer.text)["usage"]["prompt_tokens_details"]["cached_tokens"] > 0


def test_a_damaged_snapshot_is_ignored_with_a_clear_line(fleet, tmp_path):
    path = tmp_path / "index.snapshot"
    path.write_bytes(b"wrPREFIX" + bytes(100))
    made = fleet(1, f"prefixCacheSnapshot: {path}")
    made.router.wait_stderr(f"prefix-cache: snapshot {path} is ignored: version 0, not 1")
    assert made.ask(text("a")).status == 200
    made.router.signal(2)
    assert made.router.wait_exit() == 0
    assert path.read_bytes()[8:12] == b"\x01\0\0\0"  # written at the end


# early credit

def burst(made, prompt, count=12):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        first = pool.submit(made.ask, prompt)
        wait_for(lambda: sum(engine.control()["in_flight"] for engine in made.engines) >= 1, 5, "the first request")
        rest = [pool.submit(made.ask, prompt) for _ in range(count - 1)]
        return [future.result().headers.get("x-mock-engine") for future in [first, *rest]]


def test_with_dispatch_a_burst_of_one_new_prefix_stays_on_one_pod(fleet):
    made = fleet(4, "recordOn: dispatch", ("--latency", "300"), weight=20)
    assert len(set(burst(made, text("burst")))) == 1
    spread = fleet(4, "recordOn: response", ("--latency", "300"), weight=20)
    assert len(set(burst(spread, text("burst")))) == 4


def test_first_byte_credits_a_stream_that_has_begun(fleet):
    made = fleet(3, "recordOn: first-byte", ("--decode-tokens-per-second", "4"), weight=20)
    prompt = text("stream")
    with made.router.connect() as conn:
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": prompt, "max_tokens": 12,
                                                            "stream": True}))
        wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") == 64, 5, "the credit")
        explained = json.loads(made.explain({"model": "m-a", "prompt": prompt}).text)
        assert sorted(p["score"] for p in explained["plugins"]["prefix-cache"]["pods"]) == [0, 0, 100]
        # The client leaves: the credit goes.
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") == 0, 5, "the credit to be taken back")


def test_a_failed_attempt_takes_only_its_own_credit_back(fleet):
    made = fleet(2, "recordOn: dispatch", weight=20)
    prompt = text("own")
    assert made.ask(prompt[:2048]).status == 200
    answer = made.ask(prompt, headers=(("x-mock-fault", "reset=before-headers;only=mock-1"),))
    assert answer.status == 200 and answer.headers.get("x-mock-engine") == "mock-2"
    made.router.wait_metric("warmroute_attempts_total", 2, outcome="complete")
    pods = json.loads(made.explain({"model": "m-a", "prompt": prompt}).text)["plugins"]["prefix-cache"]["pods"]
    assert sorted(p["matchedBlocks"] for p in pods) in ([0, 64], [32, 64])


# closed loop

def test_learning_from_usage_drops_what_a_flushed_engine_has_lost(fleet):
    made = fleet(1, "learnFromUsage: true")
    for number in range(10):
        made.ask(text(f"old {number}"))
    made.engines[0].control({"reset_cache": True})
    before = made.router.metric("kthena_router_prefix_cache_entries")
    for number in (7, 8, 9):  # the third is the last straw: it goes, and all that is older
        made.ask(text(f"old {number}"))
    made.router.wait_metric(f"{PREFIX}disbelieved_total", before - 2 * 64)
    predicted, count = made.share("predicted")
    actual, _ = made.share("actual")
    assert (predicted, actual, count) == (3, 0, 13)
    for number, matched in ((9, 0), (3, 0), (8, 64)):
        again = json.loads(made.explain({"model": "m-a", "prompt": text(f"old {number}")}).text)
        assert again["plugins"]["prefix-cache"]["pods"][0]["matchedBlocks"] == matched


def test_an_engine_without_a_prefix_cache_shows_in_the_two_histograms(fleet):
    made = fleet(1, "topKMatches: 5", ("--cache-blocks", "0"))
    for _ in range(5):
        made.ask(text("same"))
    assert made.share("predicted") == (4, 5)
    assert made.share("actual") == (0, 5)


# observability

def test_counters_of_eligible_requests_hits_and_bytes(fleet):
    made = fleet(2, "topKMatches: 5", weight=10)
    for _ in range(3):
        made.ask(text("same", 1000))
    made.ask("")
    metric = made.router.metric
    assert metric(f"{PREFIX}requests_total", model="m-a") == 3
    assert metric(f"{PREFIX}hits_total", model="m-a") == 2
    assert metric(f"{PREFIX}matched_bytes_total", model="m-a") == 2000
    assert metric(f"{PREFIX}bytes") > 16 * 30
    assert "snapshot_age" not in made.router.metrics_text()  # no snapshot, no age


def test_explain_says_what_each_pod_would_score_and_why(fleet):
    made = fleet(3, "topKMatches: 1", weight=10)
    prompt = text("explained", 2000)
    owner = made.ask(prompt).headers.get("x-mock-engine")
    answer = made.explain({"model": "m-a", "prompt": prompt + "x" * 560})
    assert answer.status == 200 and answer.headers.get("content-type") == "application/json; charset=utf-8"
    said = json.loads(answer.text)
    assert (said["model"], said["modelRoute"], said["modelServer"]) == ("m-a", "golden/mr-a", "golden/ms-a")
    own = said["plugins"]["prefix-cache"]
    assert (own["hashedBlocks"], own["hashedBytes"], own["topKMatches"]) == (40, 2560, 1)
    by_pod = {pod["pod"].rsplit(".", 1)[1].split("-")[0]: pod for pod in own["pods"]}
    best = by_pod[owner[-1]]
    assert (best["matchedBlocks"], best["matchedBytes"], best["score"], best["topKPosition"]) == (31, 1984, 77, 1)
    assert sorted(pod["score"] for pod in own["pods"]) == [0, 0, 77]
    assert made.router.metric(f"{PREFIX}requests_total") == 1  # nothing was counted


def test_explain_refuses_what_the_router_would_refuse(fleet):
    made = fleet(1, "topKMatches: 1")
    assert made.explain(b"{").status == 400
    assert made.explain({"model": "nobody", "prompt": "x"}).status == 404
    assert made.explain({"prompt": "x"}).status == 400
    body = {"model": "m-a", "messages": [{"role": "user", "content": "hello"}]}
    assert json.loads(made.explain(body, "?path=/v1/chat/completions").text)["tokenEstimate"] > 0
    other = exchange(made.router.debug_address, request_bytes("POST", "/debug/config_dump/pods", b"{}"), "POST")
    assert other.status == 404
    assert re.search("error", other.text)


def test_explain_reads_packed_bodies_as_the_router_does(fleet):
    made = fleet(1, "topKMatches: 1")
    body = json.dumps({"model": "m-a", "prompt": "x" * 1000}).encode()
    packed = gzip.compress(body)
    assert made.explain(packed, headers=[("Content-Encoding", "gzip")]).text == made.explain(body).text
    assert made.explain(packed[:-4], headers=[("Content-Encoding", "gzip")]).status == 400
    assert made.explain(packed, headers=[("Content-Encoding", "br")]).status == 415
    bomb = gzip.compress(b" " * (9 << 20))
    assert made.explain(bomb, headers=[("Content-Encoding", "x-gzip")]).status == 413


def test_bad_values_of_new_options_are_named_in_the_log(fleet):
    made = fleet(1, "recordOn: sometimes, learnFromUsage: 3, maxHashCacheSize: auto")
    log = made.router.wait_stderr("argument learnFromUsage")
    assert 'argument recordOn must be response, first-byte or dispatch, got "sometimes"; using response' in log
    assert "argument learnFromUsage must be true or false, got 3; using false" in log
    assert "Failed to unmarshal PrefixCacheArgs" not in log
    assert made.ask(text("x")).status == 200


def test_a_prompt_of_megabytes_is_explained_and_a_larger_one_refused(fleet):
    made = fleet(1, "")
    assert made.explain({"model": "m-a", "prompt": "x" * 3_000_000}).status == 200
    assert made.explain({"model": "m-a", "prompt": "x" * 9_000_000}).status == 413
