"""The prefix record is bounded by configuration, at every moment and whatever clients send."""

import os
import re

from support.engine import vllm_metrics
from support.router import DEFAULT_CONFIG, SLOW
from support.wire import request_bytes


def configured(**values):
    text = DEFAULT_CONFIG
    for name, value in values.items():
        text = re.sub(rf"{name}: \d+", f"{name}: {value}", text)
    return text


def send_unique(made, conn, first, count):
    for number in range(first, first + count):
        prompt = f"{number:08}" * 512
        conn.send(request_bytes("POST", "/v1/completions", {"model": "m-a", "prompt": prompt}))
        assert conn.read_response().status == 200


def test_a_tiny_block_size_is_bounded_and_its_memory_is_said(stack):
    made = stack(2, metrics=[vllm_metrics()] * 2, config=configured(blockSizeToHash=1, maxBlocksToMatch=4096,
                                                                    maxHashCacheSize=5000))
    said = re.search(r"prefix-cache: blocks of 1 bytes, .* 5000 entries a pod, about (\d+) KiB", made.router.stderr())
    assert said and int(said.group(1)) < 300
    with made.router.connect() as conn:
        for at in range(0, 40, 5):
            send_unique(made, conn, at, 5)
            assert made.router.metric("kthena_router_prefix_cache_entries") <= 2 * 5000
    assert made.router.metric("kthena_router_prefix_cache_evictions_total") > 100_000


def test_unique_prompts_do_not_grow_the_router(stack):
    # The address sanitizer keeps freed memory back, 256 MiB by default: that is no growth of the router's.
    env = {"ASAN_OPTIONS": ":".join([os.environ.get("ASAN_OPTIONS", ""), "quarantine_size_mb=1"]).lstrip(":")}
    made = stack(2, metrics=[vllm_metrics()] * 2, config=configured(maxHashCacheSize=3000), env=env)
    with made.router.connect() as conn:
        send_unique(made, conn, 0, 400)
        before = made.router.rss_bytes()
        send_unique(made, conn, 400, 1200)
    assert made.router.metric("kthena_router_prefix_cache_entries") <= 2 * 3000
    assert made.router.rss_bytes() < before * (1 + 0.05 * SLOW) + 1_000_000
