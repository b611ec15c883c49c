"""Picking a pod as an operator sees it: load, prefixes, adapters, log lines; the seed's ways to verify and its symptoms."""

import collections
import re
import threading
import time

import pytest
from support import world
from support.engine import answer, vllm_metrics
from support.router import DEFAULT_CONFIG, SLOW, wait_for
from support.wire import Conn, request_bytes

PROMPT = "You are a support assistant for Kthena. Answer briefly and include a link. " * 20


def only(score, filters="[]", args=""):
    return (f"scheduler:\n{args}  plugins:\n    Filter:\n      enabled: {filters}\n    Score:\n      enabled:\n" +
            "".join(f"      - {{name: {name}, weight: {weight}}}\n" for name, weight in score.items()))


def spread(made, count, **kw):
    before = len(made.asked())
    for number in range(count):
        assert made.router.chat(content=kw.get("content") or f"{number} {time.monotonic()}").status == 200
    return collections.Counter(made.asked()[before:])


# ties, load (3.9, 3.10, 3.14, 3.15)

def test_ties_spread(stack):
    made = stack(4, metrics=[vllm_metrics()] * 4, config=only({"gpu-usage": 1}))
    counts = spread(made, 80)
    assert len(counts) == 4 and max(counts.values()) < 45, counts


def test_no_score_plugin_means_a_random_choice_and_a_warning(stack):
    made = stack(3, config="scheduler: {plugins: {Filter: {enabled: []}, Score: {enabled: []}}}\n")
    assert len(spread(made, 40)) == 3
    assert re.search("(?i)random", made.router.stderr())


def test_random_beside_others_is_removed_with_a_warning(stack):
    made = stack(2, config=only({"gpu-usage": 1, "random": 5}))
    assert set(spread(made, 10)) == {"a-1"}
    made.router.wait_stderr("random")


def test_gpu_usage_prefers_the_empty_cache(stack):
    made = stack(2, metrics=[vllm_metrics(kv=0.9), vllm_metrics(kv=0.1)], config=only({"gpu-usage": 1}))
    assert set(spread(made, 10)) == {"a-2"}


def test_counting_is_part_of_picking(stack):
    """Simultaneous requests see each other although no engine has answered."""
    gate = threading.Event()
    made = stack(4, answers=[[{"wait_for": gate}, *answer("ok")]], metrics=[vllm_metrics()] * 4,
                 config=only({"least-request": 1}))
    conns = [made.router.connect() for _ in range(8)]
    for number, conn in enumerate(conns):
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": str(number)}))
        wait_for(lambda n=number: len(made.asked()) == n + 1, 5)
    assert collections.Counter(made.asked()) == dict.fromkeys(("a-1", "a-2", "a-3", "a-4"), 2)
    gate.set()
    for conn in conns:
        assert conn.read_response().status == 200
        conn.close()


def test_waiting_filter(stack):
    made = stack(2, metrics=[vllm_metrics(waiting=10), vllm_metrics(waiting=9, kv=0.5)])
    assert set(spread(made, 10)) == {"a-2"}


def test_a_pod_without_metrics_is_unknown_not_idle(stack):
    """gpu-usage gives 50 to a pod that was never sampled: behind an empty one, before a full one."""
    made = stack(2, metrics=[vllm_metrics(kv=0.2), ""], config=only({"gpu-usage": 1}))
    made.engines[1].hang_scrapes = True
    assert made.router.chat().status == 200
    made = stack(2, metrics=[vllm_metrics(kv=0.2), vllm_metrics()], config=only({"gpu-usage": 1}), start=False)
    made.engines[1].hang_scrapes = True
    made.router.start()
    assert set(spread(made, 10)) == {"a-1"}
    full = stack(2, metrics=[vllm_metrics(kv=0.9), vllm_metrics()], config=only({"gpu-usage": 1}), start=False)
    full.engines[1].hang_scrapes = True
    full.router.start()
    assert set(spread(full, 10)) == {"a-2"}


def test_a_pod_is_never_dropped_for_missing_metrics(stack):
    made = stack(1, start=False)
    made.engine.hang_scrapes = True
    made.router.start()
    assert made.router.chat().status == 200


def test_old_samples_become_unknown(stack):
    made = stack(2, metrics=[vllm_metrics(kv=0.8), vllm_metrics(kv=0.1)], config=only({"gpu-usage": 1}),
                 env={"METRICS_SCRAPE_INTERVAL": "200ms"})
    assert set(spread(made, 5)) == {"a-2"}
    made.engines[1].hang_scrapes = True  # its last sample says 0.1 for 5 s, then it counts as 50
    made.engines[0].metrics = vllm_metrics(kv=0.3)
    wait_for(lambda: set(spread(made, 3)) == {"a-1"}, 10, "the stale pod to lose", 0.3)


def test_one_hanging_pod_delays_no_other(stack):
    made = stack(3, env={"METRICS_SCRAPE_INTERVAL": "200ms"}, start=False)
    made.engines[0].hang_scrapes = True
    made.router.start()
    times = len(made.engines[1].scrapes)
    started = time.monotonic()
    made.engines[1].wait_scrapes(8)
    assert time.monotonic() - started < 5 * SLOW and len(made.engines[1].scrapes) > times
    assert len([p for p, _ in made.engines[0].scrapes if p == "/metrics"]) <= 2  # they do not pile up


@pytest.mark.alone
def test_scrape_interval_is_kept(stack):
    made = stack(1, env={"METRICS_SCRAPE_INTERVAL": "300ms"})
    made.engine.wait_scrapes(4)
    times = [t for p, t in made.engine.scrapes if p == "/metrics"]
    gaps = [b - a for a, b in zip(times[1:], times[2:])]
    assert all(0.15 < g < 0.9 * SLOW for g in gaps), gaps


def test_sglang_metrics(stack):
    busy = "# TYPE sglang:token_usage gauge\nsglang:token_usage{engine_type=\"unified\"} 0.9\n" \
           "# TYPE sglang:num_queue_reqs gauge\nsglang:num_queue_reqs 50\n" \
           "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 5\n"
    made = stack(2, metrics=[busy, busy.replace("50", "0")], server=world.model_server("ms-a", "a", engine="SGLang"))
    assert set(spread(made, 8)) == {"a-2"}


def test_data_parallel_series_are_summed(stack):
    ranks = "# TYPE vllm:num_requests_waiting gauge\n" + "".join(
        f'vllm:num_requests_waiting{{engine="{n}"}} 4\n' for n in range(3))
    ranks += "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 1\n" \
             "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc 0.1\n"
    made = stack(2, metrics=[ranks, vllm_metrics(waiting=9, kv=0.5)])
    assert set(spread(made, 8)) == {"a-2"}  # 12 waiting is over the limit of ten


def test_lora_affinity(stack):
    made = stack(3, config=only({"gpu-usage": 1}, "[lora-affinity]"), start=False)
    made.engines[2].models = ["real-a", "lora-a1"]
    made.router.start()
    before = len(made.asked())
    for _ in range(5):
        assert made.router.chat("lora-a1").status == 200
    assert set(made.asked()[before:]) == {"a-3"}
    made.engines[2].models = ["real-a"]
    wait_for(lambda: made.router.chat("lora-a1").status == 503, 15)


# prefix-cache: the seed's chapters "Verifying" and "Troubleshooting"

def scores(made, plugin="prefix-cache"):
    """Score maps of the plugin's log records, oldest first."""
    out = []
    lines = [line for line in made.router.stderr().splitlines()]
    for at, line in enumerate(lines):
        if f"ScorePlugin: {plugin}" in line:
            found = {}
            for follow in lines[at + 1 :]:
                match = re.search(r"Pod: (\S+), Score: (-?\d+)", follow)
                if not match:
                    break
                found[match.group(1)] = int(match.group(2))
            out.append(found)
    return out


def test_the_second_request_scores_100_and_goes_to_the_same_pod(stack):
    made = stack(3, metrics=[vllm_metrics()] * 3, flags=["--v=4"])
    assert made.router.chat(content=PROMPT).status == 200
    made.router.wait_log(1)
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") > 0, 3)
    assert made.router.chat(content=PROMPT).status == 200
    first, second = made.asked()
    assert first == second
    wait_for(lambda: len(scores(made)) == 2, 5)
    wanted = {f"golden/a-{n}": 0 for n in (1, 2, 3)}
    assert scores(made) == [wanted, {**wanted, f"golden/{first}": 100}]
    samples = made.router.metrics()
    ratio = {dict(l)["le"]: v for (n, l), v in samples.items()
             if n == "kthena_router_prefix_cache_match_ratio_bucket" and dict(l)["model"] == "m-a"}
    assert ratio["0"] == 1 and ratio["0.99"] == 1 and ratio["+Inf"] == 2


def test_score_records_of_many_threads_are_never_interleaved(stack):
    made = stack(3, metrics=[vllm_metrics()] * 3, flags=["--v=4", "--workers=2"])

    def client(seed):
        with Conn(made.router.address) as conn:
            for number in range(20):
                conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": f"{seed} {number}"}))
                assert conn.read_response().status == 200

    threads = [threading.Thread(target=client, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: len(scores(made)) >= 80, 8)
    for found in scores(made):
        assert len(found) == 3, found


def test_a_prefix_that_is_partly_shared(stack):
    made = stack(1, flags=["--v=4"])
    base = "x" * (64 * 24)
    for prompt in (base, base + "y" * (64 * 8)):
        assert made.router.post("/v1/completions", {"model": "m-a", "prompt": prompt}).status == 200
        made.router.wait_log()
    wait_for(lambda: len(scores(made)) == 2, 5)
    assert scores(made)[1] == {"golden/a-1": 75}


def test_models_never_share_prefixes(stack):
    made = stack(1, flags=["--v=4"])
    assert made.router.chat(content=PROMPT).status == 200
    made.router.wait_log(1)
    assert made.router.chat("lora-a1", content=PROMPT).status == 200
    wait_for(lambda: len(scores(made)) == 2, 5)
    assert scores(made)[1] == {"golden/a-1": 0}


def test_requests_that_differ_only_in_tools_do_not_look_alike(stack):
    made = stack(1, flags=["--v=4"])
    tools = [{"type": "function", "function": {"name": "f"}}]
    for extra in ({}, {"tools": tools}, {"tools": tools}):
        assert made.router.chat(content=PROMPT, **extra).status == 200
        made.router.wait_log()
        time.sleep(0.02)
    wait_for(lambda: len(scores(made)) == 3, 5)
    assert [s["golden/a-1"] for s in scores(made)] == [0, 0, 100]


@pytest.mark.parametrize("outcome", ["400", "500", "cut", "client left", "302"])
def test_nothing_is_recorded_for_what_did_not_succeed(stack, outcome):
    made = stack(1)
    scripts = {"400": answer("no", "400 X"), "500": answer("no", "500 X"), "302": answer("no", "302 X"),
               "cut": [{"send": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"}, {"wait_ms": 50}, {"close": True}],
               "client left": [{"send": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"}, {"hang": True}]}
    made.engine.answers = [scripts[outcome]]
    if outcome == "client left":
        conn = made.router.connect()
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": PROMPT}))
        conn.read_head()
        conn.close()
    else:
        made.router.chat(content=PROMPT)
    made.router.wait_log(1)
    assert made.router.metric("kthena_router_prefix_cache_entries") == 0


def test_the_pod_that_answered_is_recorded(stack):
    made = stack(2)
    made.engines[0].answers = [answer("no", "500 X"), answer("ok")]
    assert made.router.chat(content=PROMPT).status == 200
    made.router.wait_log(1)
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") > 0, 3)
    assert made.router.chat(content=PROMPT).status == 200
    assert made.asked() == ["a-1", "a-2", "a-2"]


def args(text):
    return DEFAULT_CONFIG.replace("      blockSizeToHash: 64\n      maxBlocksToMatch: 128\n      maxHashCacheSize: 50000\n"
                                  "      topKMatches: 5\n", text)


def test_symptom_args_that_cannot_be_parsed(stack):
    made = stack(config=args("      blockSizeToHash: '64'\n"))
    made.router.wait_stderr("Failed to unmarshal PrefixCacheArgs, using default values")
    assert made.router.chat().status == 200


def test_symptom_evictions_grow(stack):
    made = stack(config=args("      maxHashCacheSize: 4\n"))
    for number in range(3):
        assert made.router.chat(content=f"{number} " * 300).status == 200
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_evictions_total", model="m-a") > 0, 3)
    assert made.router.metric("kthena_router_prefix_cache_entries") <= 4


def test_symptom_ratio_is_always_0_with_a_timestamp_in_front(stack):
    made = stack(flags=["--v=4"])
    for number in range(3):
        assert made.router.post("/v1/completions", {"model": "m-a", "prompt": f"{number} {PROMPT}"}).status == 200
    wait_for(lambda: len(scores(made)) == 3, 5)
    assert all(s == {"golden/a-1": 0} for s in scores(made))


def test_symptom_coverage_too_short(stack):
    """All prompts share 128 bytes and only 128 are seen: everything matches fully."""
    made = stack(flags=["--v=4"], config=args("      maxBlocksToMatch: 2\n"))
    for number in range(3):
        assert made.router.post("/v1/completions", {"model": "m-a", "prompt": "s" * 128 + str(number)}).status == 200
        made.router.wait_log(number + 1)
        time.sleep(0.02)
    wait_for(lambda: len(scores(made)) == 3, 5)
    assert [s["golden/a-1"] for s in scores(made)] == [0, 100, 100]


def test_symptom_small_weight_loses(stack):
    made = stack(2, metrics=[vllm_metrics(kv=0.9), vllm_metrics(kv=0.0)],
                 config=only({"prefix-cache": 1, "gpu-usage": 5}))
    made.engines[1].answers = [answer("no", "500 X"), answer("ok")]
    assert made.router.chat(content=PROMPT).status == 200  # a-1 has it now
    made.router.wait_log(1)
    assert made.router.chat(content=PROMPT).status == 200
    assert made.asked()[-1] == "a-2"


def test_symptom_ratio_drops_after_a_restart(stack):
    made = stack(1)
    assert made.router.chat(content=PROMPT).status == 200
    wait_for(lambda: made.router.metric("kthena_router_prefix_cache_entries") > 0, 3)
    made.router.signal(2)
    assert made.router.wait_exit() == 0
    made.router.start()
    assert made.router.metric("kthena_router_prefix_cache_entries") == 0


def test_argument_names_in_any_case(stack):
    made = stack(flags=["--v=4"], config=args("      BLOCKSIZETOHASH: 10\n      maxblockstomatch: 10\n"))
    for prompt in ("a" * 100, "a" * 50 + "b" * 50):
        assert made.router.post("/v1/completions", {"model": "m-a", "prompt": prompt}).status == 200
        made.router.wait_log()
        time.sleep(0.05)
    wait_for(lambda: len(scores(made)) == 2, 5)
    assert scores(made)[1] == {"golden/a-1": 50}


# routing

def rules(text):
    return "  rules:\n" + text


def test_rules_headers_uri_and_weights(stack):
    made = stack(2, resources=lambda s: world.join(
        world.model_server("ms-a", "a"), world.pod("a-1", s.ip(1), "a"),
        world.model_server("ms-b", "b"), world.pod("a-2", s.ip(2), "b"),
        world.route("mr", "m", "", rules=rules(
            "  - name: gold\n    modelMatch:\n      headers: {x-tier: {exact: gold}}\n"
            "    targetModels: [{modelServerName: ms-b}]\n"
            "  - name: emb\n    modelMatch:\n      uri: {prefix: /v1/emb}\n"
            "    targetModels: [{modelServerName: ms-b}]\n"
            "  - name: user\n    modelMatch:\n      headers: {x-user: {regex: '^u[0-9]+$'}}\n"
            "    targetModels: [{modelServerName: ms-b}]\n"
            "  - name: rest\n    targetModels: [{modelServerName: ms-a}]\n"))))
    for headers, path, pod in (([], "/v1/chat/completions", "a-1"),
                               ([("X-Tier", "gold")], "/v1/chat/completions", "a-2"),
                               ([("x-tier", "Gold")], "/v1/chat/completions", "a-1"),
                               ([], "/v1/embeddings", "a-2"), ([("x-user", "u42")], "/v1/completions", "a-2"),
                               ([("x-user", "42")], "/v1/completions", "a-1")):
        assert made.router.chat("m", path=path, headers=headers).status == 200
        assert made.asked()[-1] == pod, (headers, path)


def test_models_list_and_retrieve(stack):
    made = stack(resources=lambda s: world.join(world.simple(s), world.route("mr-noms", "gone", "ms-missing"),
                                                world.route("mr-b", "a/b", "ms-a", loras=("m-a",))))
    listed = made.router.get("/v1/models").json()
    assert listed["object"] == "list"
    assert [m["id"] for m in listed["data"]] == ["a/b", "lora-a1", "m-a"]
    assert listed["data"][0] == {"id": "a/b", "object": "model", "created": 0, "owned_by": "kthena"}
    assert made.router.get("/v1/models/m-a").json()["id"] == "m-a"
    assert made.router.get("/v1/models/a%2Fb").json()["id"] == "a/b"
    assert made.router.get("/v1/models/a/b").json()["id"] == "a/b"
    missing = made.router.get("/v1/models/nope")
    assert missing.status == 404 and missing.error["type"] == "not_found_error"
    assert made.asked() == []
